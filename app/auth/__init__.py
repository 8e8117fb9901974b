"""Floor 1: who is it? From an address, later from a password, a token or a certificate, to a Caller."""
