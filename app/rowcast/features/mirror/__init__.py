"""Copies of declared tables in PostgreSQL, which follow the log (K16)."""
