"""What is at a topic: its table, its resource class, and system rows, which are such classes."""
