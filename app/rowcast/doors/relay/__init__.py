"""Requests and sockets that a node passes on to the sequencer."""
