"""Sessions: what a client keeps between its packets, in memory and on disk."""
