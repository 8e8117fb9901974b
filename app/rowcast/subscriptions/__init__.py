"""Live cursors: subscriptions, what they want, what they get first and what they missed."""
