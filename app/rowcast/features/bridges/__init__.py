"""Bridges to other brokers: cursors on the log whose readers are brokers."""
