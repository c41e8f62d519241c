"""Pure decisions: no I/O, no threads, no clock, no randomness of its own."""
