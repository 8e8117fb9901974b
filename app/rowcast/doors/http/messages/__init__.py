"""Messages: the parts of HTTP requests and responses, with their bounds."""
