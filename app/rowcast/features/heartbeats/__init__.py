"""Heartbeats: events on streams that show that the connection lives and how far the log is."""
