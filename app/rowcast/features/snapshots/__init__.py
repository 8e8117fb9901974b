"""Snapshots as the server shows them: which there are, and the jobs that make them."""
