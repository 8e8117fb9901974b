"""Large values: they are checked and encoded in a child process, so that nobody else waits."""
