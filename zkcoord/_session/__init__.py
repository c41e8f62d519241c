"""What makes a kazoo session trustworthy: bounded sending, confirmed heartbeats, watches taken back, clean-up."""
