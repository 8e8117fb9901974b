"""Floor 2: the disk. Records, the log and what must survive a restart."""
