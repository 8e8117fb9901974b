"""Results: bulk uploads of a job's rows, committed atomically (M5, S14)."""
