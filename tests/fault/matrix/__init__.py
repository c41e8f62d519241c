"""The fault matrix: every request of acquire, wait, hold and release, under every fault; see ``expected.py``."""
