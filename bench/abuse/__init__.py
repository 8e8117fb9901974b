"""Attacks on a running server, each beside a client that behaves well and is measured."""
