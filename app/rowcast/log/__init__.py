"""The log: batches of events, appended once, durable, read from any position.

``batch`` is the format, bytes and nothing else; ``log`` is the interface that every engine has;
``local_log`` keeps batches in files of this machine, ``segment`` is one of these files. This room
knows no tables, no rights and no protocols, and must not import asyncio: every call blocks, and is
made off the event loop.
"""
