"""REST: records and collections, read and written one request at a time."""
