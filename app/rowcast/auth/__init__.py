"""Floor 1: authentication, from an address, password, token or certificate to a Caller."""
