"""Long polls: the events after a cursor, waiting for the first one if there is none (B18).

The answer is that of history, and its ``Rowcast-Position`` is the next cursor. A subscription only
wakes the request; the events are read from the log, so a poll that follows another misses nothing
and gets nothing twice.
"""

import asyncio

from rowcast.core.read_limits import LONG_POLL_EVENTS
from rowcast.doors.http.rest.history import Answer, answer_to
from rowcast.doors.http.rest.request import Request
from rowcast.kernel.reauthorization import stay
from rowcast.reads.read_queue import current_read_caller
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription


async def send_next(request: Request, answer: Answer) -> None:
    """Answer with the next events, or with none when the time is over or the server stops.

    ``answer`` is that of history, without waiting.
    """
    kernel, caller = request.kernel, request.caller
    kernel.reader.shedding.check_subscribe()
    rung = asyncio.Event()
    subscription = Subscription(kernel.reader, caller.client_id, rung.set)
    interest = SubscribedFilter(answer.window.topics, marks=False)
    await kernel.authorise_waiting(interest, caller)
    kernel.watch(subscription, interest, caller, current=False, asked=True)
    try:
        await _send_next(request, answer, subscription, rung)
    finally:
        kernel.close(subscription)


async def _send_next(
    request: Request, answer: Answer, subscription: Subscription, rung: asyncio.Event
) -> None:
    period = answer.period
    limit = period.limit or LONG_POLL_EVENTS
    until = asyncio.get_running_loop().time() + request.edge.settings.poll_seconds
    while True:
        rung.clear()
        while subscription.take(LONG_POLL_EVENTS):
            pass  # they are read from the log
        answer = await answer_to(request, period)
        events, more = await answer.first(limit)
        if events or not await _rings(request, rung, until):
            await answer.send_events(events, events[-1].seq if more else None)
            return
        # who waited may have been disabled meanwhile, or its token may be over (L5, L8)
        request.caller = stay(request.kernel, subscription, request.caller)
        period = answer.after_window()
        current_read_caller().renew()  # the query timeout applies to each read


async def _rings(request: Request, rung: asyncio.Event, until: float) -> bool:
    """Wait until something has happened; False when the time is over or the server stops."""
    waiting = [asyncio.ensure_future(each.wait()) for each in (rung, request.edge.closing)]
    left = max(0.0, until - asyncio.get_running_loop().time())
    try:
        await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
    return rung.is_set() and not request.edge.closing.is_set()
