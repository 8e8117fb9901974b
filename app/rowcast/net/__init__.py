"""Floor 1: listening sockets and TLS, for any protocol."""
