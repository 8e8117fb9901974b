"""Rows and values: compiled tables, payloads in the reader's media type, rows of topic tables."""
