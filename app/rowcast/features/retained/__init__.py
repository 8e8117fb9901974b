"""Retained messages, which are records: rules, expiry, and rows."""
