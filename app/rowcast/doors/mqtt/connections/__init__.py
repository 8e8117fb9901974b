"""Connections: what carries bytes, who may connect, and how long a peer is waited for."""
