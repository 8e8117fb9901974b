"""Heartbeats: periodic events on streams with the head of the log."""
