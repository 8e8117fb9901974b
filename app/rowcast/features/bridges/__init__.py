"""Bridges to other brokers: each a cursor on the log whose reader is another broker."""
