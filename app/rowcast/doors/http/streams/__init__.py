"""Streams: server-sent events and WebSockets, and their shared code."""
