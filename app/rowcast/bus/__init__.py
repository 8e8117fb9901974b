"""Fan-out in memory."""
