"""Overload protection: what is refused while the server is short of memory."""
