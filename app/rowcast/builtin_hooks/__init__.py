"""Hooks that come with the server; each is switched on by its settings."""
