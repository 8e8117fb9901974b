"""Floor 1: who is it? From an address, later a password, token or certificate, to a Caller."""
