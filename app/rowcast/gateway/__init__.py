"""The gateway: bridges to other brokers, each a cursor on the log whose reader is far away."""
