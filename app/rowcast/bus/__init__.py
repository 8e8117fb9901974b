"""Floor 2: fan-out in memory."""
