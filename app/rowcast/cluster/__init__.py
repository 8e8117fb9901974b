"""Nodes that share one log: one numbers the writes of all, the others follow it."""
