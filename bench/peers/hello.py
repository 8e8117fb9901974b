"""The ceiling of the HTTP cases: an ASGI application that says hello and does nothing else."""


async def app(scope, _receive, send):
    """Answer every request with the same 13 bytes."""
    if scope["type"] != "http":
        return
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", b"text/plain"), (b"content-length", b"13")],
        }
    )
    await send({"type": "http.response.body", "body": b"Hello, world!"})
