"""A replay beside the client that recorded what was: equal lists, and how the events are spaced."""
