"""What makes a kazoo session trustworthy: bounded sending, confirmed heartbeats, watches that are taken back, clean-up."""
