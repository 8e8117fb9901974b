"""Log first: writes are appended to the log, and tables follow.

``JournaledStore`` is the store of a server: it appends to the log (``log/``), keeps what the tables
do not have yet in its ``Tail``, and has an applier write the tables (``store/``), in a process of
its own. A read waits until the tables have everything that was in the log when it was asked.
"""
