"""Messages: what a request and an answer of HTTP consist of, with their bounds."""
