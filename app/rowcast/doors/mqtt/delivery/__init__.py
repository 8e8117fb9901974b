"""Delivery: what subscriptions have for a client becomes frames, and is in flight."""
