"""Client event log: what happens to clients on every door, under ``$SYS/events``."""
