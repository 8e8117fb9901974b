"""Sessions: the state of clients, in memory and on disk."""
