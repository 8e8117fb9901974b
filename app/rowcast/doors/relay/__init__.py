"""Requests and sockets that a node passes on to the node that numbers writes."""
