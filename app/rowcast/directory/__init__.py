"""Floor 4: users and roles as rows, and the record of who administered what."""
