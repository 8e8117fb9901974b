"""Writes on their way into the log: queued, shared out fairly, decided, appended, announced."""
