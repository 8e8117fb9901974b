"""Metrics: the server's counters, published under ``$SYS/broker``."""
