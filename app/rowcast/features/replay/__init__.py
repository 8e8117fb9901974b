"""Replay: a part of the past, sent again as if it were live (M6)."""
