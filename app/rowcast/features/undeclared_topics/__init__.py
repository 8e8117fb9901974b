"""Undeclared topics as tables of their messages: their branches, views and rows."""
