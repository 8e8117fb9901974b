"""Client event log: events of clients of every door, under ``$SYS/events``."""
