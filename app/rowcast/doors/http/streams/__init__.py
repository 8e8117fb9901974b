"""Streams: server-sent events and WebSockets, and what the two share."""
