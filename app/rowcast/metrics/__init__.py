"""What the server counts of itself, and how it tells it under ``$SYS/broker``."""
