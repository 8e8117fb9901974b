"""Floor 2: the disk. Records, the log and durable facts."""
