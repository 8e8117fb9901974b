"""Results: what a job computed elsewhere, brought in parts and committed at once (M5, S14)."""
