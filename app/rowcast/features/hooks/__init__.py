"""Hooks: user code at named points of the path.

And the access list, rate limit and logger that come along.
"""
