"""HTTP: REST, server-sent events and WebSockets: one raw ASGI application before FastAPI."""
