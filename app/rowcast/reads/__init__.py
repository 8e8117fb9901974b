"""Asynchronous reads of the store: their queue and threads, the record cache, pages and rows."""
