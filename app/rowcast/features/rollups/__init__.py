"""Roll-ups: rows per group and period that the server keeps of the records of another table."""
