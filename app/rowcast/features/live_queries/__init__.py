"""Live queries: subscriptions to the records that satisfy conditions."""
