"""Spark on snapshots and on the live log: a program of its own, beside the server.

Nothing here runs inside the server: it reads snapshots and speaks HTTP like any other client.
"""
