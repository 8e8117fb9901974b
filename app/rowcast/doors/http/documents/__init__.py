"""Documents of the server: health, OpenAPI, AsyncAPI and the live page."""
