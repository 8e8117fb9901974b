"""The door of the Durable Streams protocol, at ``/$streams/``."""
