"""Commands of ``rowcast`` that work on snapshots and with Spark."""
