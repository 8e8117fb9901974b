"""System rows: the server's own state as rows."""
