"""Overload protection: load shedding while the server is short of memory."""
