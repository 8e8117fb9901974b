"""Statistics by topic: the busiest topics, with a bounded number of counters."""
