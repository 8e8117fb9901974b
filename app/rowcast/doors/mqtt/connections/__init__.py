"""Connections: transports, admission, timers and limits."""
