"""The lake: Parquet snapshots and Spark, programs beside the server.

Nothing here runs inside the server: it reads the data directory and snapshots, or speaks HTTP.
"""
