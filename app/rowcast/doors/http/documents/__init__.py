"""Documents: what the server says of itself: health, OpenAPI, the live page."""
