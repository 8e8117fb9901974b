"""Listening sockets and TLS, for any protocol; threads, child processes and their memory."""
