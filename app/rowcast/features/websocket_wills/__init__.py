"""Wills of WebSocket clients (C21)."""
