"""Spark on snapshots and on the live log, in a separate program.

Nothing here runs inside the server: it reads snapshots and speaks HTTP like any other client.
"""
