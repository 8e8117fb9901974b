"""Live cursors: subscriptions, their filters, backfill, catch-up and gaps."""
