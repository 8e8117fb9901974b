"""User code at the points of a message's way, and what stands between it and the engine."""
