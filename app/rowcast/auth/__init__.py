"""Authentication, from an address, password, token or certificate to a Caller."""
