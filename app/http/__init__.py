"""HTTP: REST, server-sent events and WebSockets, as one raw ASGI application in front of FastAPI."""
