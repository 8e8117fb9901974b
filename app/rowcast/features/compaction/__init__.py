"""Compaction: of a record's history that was trimmed, its end stays: the record or a tombstone."""
