"""Asynchronous reads of the store: their queue and threads, what memory knows, pages and rows."""
