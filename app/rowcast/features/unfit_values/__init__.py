"""What happens to values that do not fit their table."""
