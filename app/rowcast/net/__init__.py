"""Listening sockets and TLS, for any protocol."""
