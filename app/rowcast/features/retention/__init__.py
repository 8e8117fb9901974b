"""Retention: events beyond their limits are forgotten, and what expires ends at its time."""
