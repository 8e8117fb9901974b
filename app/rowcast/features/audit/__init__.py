"""Audit: administrative actions and refusals, as messages for administrators."""
