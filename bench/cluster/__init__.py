"""Measures clusters and workers beside one process, and beside NATS JetStream alone."""
