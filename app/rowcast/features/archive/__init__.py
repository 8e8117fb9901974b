"""Archive: what retention trims from the log goes to files first, and is read there (M2)."""
