"""Audit: who administered what, and who was refused, as messages for administrators."""
