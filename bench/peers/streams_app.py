"""Live delivery as it is usually written: a queue for each client, emptied by its own task.

GET /Log/{id} is sse-starlette's EventSourceResponse; the WebSocket of the same path is FastAPI's.
PUT /Log/{id} puts the body onto every queue.
"""

import asyncio
from collections.abc import AsyncIterator

from fastapi import FastAPI, Request, Response, WebSocket, WebSocketDisconnect
from sse_starlette.sse import EventSourceResponse

QUEUE_EVENTS_MAX = 1000

app = FastAPI()
app.state.queues = set()
app.state.seq = 0


@app.put("/Log/{_topic}", status_code=204)
async def put(_topic: str, request: Request) -> Response:
    """Offer the body to every subscriber."""
    body = (await request.body()).decode()
    app.state.seq += 1
    for queue in app.state.queues:
        queue.put_nowait((app.state.seq, body))
    return Response(status_code=204)


@app.get("/Log/{_topic}")
async def stream(_topic: str) -> EventSourceResponse:
    """Follow the topic by Server-Sent Events."""

    async def events() -> AsyncIterator[dict[str, str]]:
        queue = asyncio.Queue(QUEUE_EVENTS_MAX)
        app.state.queues.add(queue)
        try:
            while True:
                seq, body = await queue.get()
                yield {"id": f"1:{seq}", "event": "put", "data": body}
        finally:
            app.state.queues.discard(queue)

    return EventSourceResponse(events())


@app.websocket("/Log/{_topic}")
async def socket(_topic: str, websocket: WebSocket) -> None:
    """Follow the topic by WebSocket."""
    await websocket.accept()
    queue = asyncio.Queue(QUEUE_EVENTS_MAX)
    app.state.queues.add(queue)
    try:
        while True:
            _seq, body = await queue.get()
            await websocket.send_text(body)
    except WebSocketDisconnect:
        pass
    finally:
        app.state.queues.discard(queue)
