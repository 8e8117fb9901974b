"""Durable streams: append-only streams at topics, with their state as facts in the log."""
