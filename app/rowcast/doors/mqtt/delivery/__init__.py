"""Delivery: encodes a subscription's events as frames, and tracks messages in flight."""
