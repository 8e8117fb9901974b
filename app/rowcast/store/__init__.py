"""The disk. Records, the log and durable facts."""
