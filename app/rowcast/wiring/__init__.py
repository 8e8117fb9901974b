"""Wiring: the parts of the server, joined."""
