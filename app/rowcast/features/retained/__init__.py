"""Retained messages, which are records: what is kept of them, for how long, and as rows."""
