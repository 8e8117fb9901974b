"""A client inside the process, for code in resources/."""
