"""An event loop and executors that one seed drives: virtual time, chosen order, no threads.

Time jumps to the next timer when nothing is ready, so a simulated minute costs nothing. What is
ready in one turn runs in an order that the seed chooses: more than asyncio would ever do, so code
that leans on luck is found. Work for a thread runs later, at a moment of its own, and its result
comes back later still; only the writer's keeps its order, because it has one thread.
"""

import asyncio
import heapq
from collections import deque
from concurrent.futures import Executor, Future

TURNS_MAX = 400_000
"""A simulation that needs more turns of the loop goes in circles."""


class Stuck(Exception):  # noqa: N818 - a sentence reads so
    """Nothing can ever happen again, or it happens for ever."""


class SimLoop(asyncio.BaseEventLoop):
    """asyncio without a clock, a selector or threads."""

    def __init__(self, rng):
        super().__init__()
        self._rng = rng
        self._mixing = rng.choice((0.0, 0.3, 1.0))
        self._time = 0.0
        self.turns = 0
        self.tasks = {}
        """Unfinished tasks in the order in which they began."""

    def time(self):
        return self._time

    def create_task(self, coro, **kwargs):
        task = super().create_task(coro, **kwargs)
        self.tasks[task] = None
        task.add_done_callback(lambda done: self.tasks.pop(done, None))
        return task

    def timers(self):
        """Return the timers that are still to fire."""
        return [handle for handle in self._scheduled if not handle.cancelled()]

    def _write_to_self(self):
        pass

    def _process_events(self, event_list):
        pass

    def _run_once(self):
        self.turns += 1
        if self.turns > TURNS_MAX:
            raise Stuck("the simulation does not end")
        timers = self._scheduled
        while timers and timers[0].cancelled():
            heapq.heappop(timers)._scheduled = False
        if not self._ready:
            if not timers:
                raise Stuck("nothing will ever happen again")
            self._time = max(self._time, timers[0].when())
        while timers and timers[0].when() <= self._time:
            handle = heapq.heappop(timers)
            handle._scheduled = False
            self._ready.append(handle)
        ready = list(self._ready)
        self._ready.clear()
        if len(ready) > 1 and self._rng.random() < self._mixing:
            self._rng.shuffle(ready)
        for handle in ready:
            if not handle.cancelled():
                handle._run()

    async def pause(self, seconds):
        """Let virtual time pass."""
        future = self.create_future()
        self.call_later(seconds, _wake, future)
        await future


def _wake(future):
    if not future.done():
        future.set_result(None)


class SimExecutor(Executor):
    """Threads that work when the seed says so."""

    def __init__(self, loop, rng, *, ordered, slowness=1):
        self._slowness = slowness
        self._loop = loop
        self._rng = rng
        self._ordered = ordered
        self._waiting = deque()
        self._done = deque()
        self.alive = True

    @property
    def idle(self):
        return not self._waiting and not self._done

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        if self.alive:
            self._waiting.append((future, fn, args))
            self._loop.call_later(self._delay(), self.work_one)
        return future

    def _delay(self):
        rng = self._rng
        delay = rng.choice((0, 0, 0.0005, 0.002, 0.005, rng.random() * 0.05))
        return delay * self._slowness

    def work_one(self):
        """Do the next piece of work now, if there is one."""
        if not self._waiting or not self.alive:
            return
        index = 0 if self._ordered else self._rng.randrange(len(self._waiting))
        future, fn, args = self._waiting[index]
        del self._waiting[index]
        if not future.set_running_or_notify_cancel():
            return
        try:
            result, error = fn(*args), None
        except Exception as raised:  # noqa: BLE001 - the future carries it
            result, error = None, raised
        self._done.append((future, result, error))
        self._loop.call_later(self._delay(), self._tell_one)

    def _tell_one(self):
        if not self._done or not self.alive:
            return
        index = 0 if self._ordered else self._rng.randrange(len(self._done))
        future, result, error = self._done[index]
        del self._done[index]
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def kill(self):
        """End as a process does: nothing is done or told any more."""
        self.alive = False
        self._waiting.clear()
        self._done.clear()
