"""Metrics: what the server counts of itself, and how it is read under ``$SYS/broker``."""
