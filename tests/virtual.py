"""Threads that work when a test says so, and a loop whose clock a test moves."""

import asyncio
from collections import deque
from concurrent.futures import Executor, Future


class Threads(Executor):
    """Threads that work at once, or, when held, step by step."""

    def __init__(self):
        self.held = False
        self.stopped = False
        self.waiting = deque()

    def submit(self, fn, /, *args, **kwargs):
        if self.stopped:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = Future()
        self.waiting.append((future, fn, args))
        if not self.held:
            self.step()
        return future

    def call(self, call, done, failed):
        """Do what has no result, and tell how it has ended, as ``SingleThread`` does."""

        def ended(future):
            error = future.exception()
            _ = done() if error is None else failed(error)

        self.submit(call).add_done_callback(ended)

    def step(self):
        """Do the oldest piece of work."""
        future, fn, args = self.waiting.popleft()
        try:
            result = fn(*args)
        except BaseException as error:  # noqa: BLE001 - the future carries it
            future.set_exception(error)
        else:
            future.set_result(result)

    def hold(self):
        """From now on, only collect."""
        self.held = True

    def release(self):
        """Work at once from now on, beginning with what waits."""
        self.held = False
        while self.waiting:
            self.step()


class Timer:
    """A call of the loop that is still to come."""

    def __init__(self, when, call, arguments):
        self.when, self.call, self.arguments = when, call, arguments
        self.cancelled = False

    def cancel(self):
        self.cancelled = True


class VirtualLoop:
    """The part of a loop that the server uses; its time passes when a test says so.

    Without a ``real`` loop, calls that are due at once wait for ``advance`` too.
    """

    def __init__(self, real=None):
        if real is not None:
            self.call_soon = real.call_soon
        self.now = 1000.0
        self.timers = []

    def time(self):
        return self.now

    @staticmethod
    def create_task(work):
        return asyncio.get_running_loop().create_task(work)

    def call_soon(self, call, *arguments):
        return self.call_later(0, call, *arguments)

    def call_later(self, delay, call, *arguments):
        timer = Timer(self.now + delay, call, arguments)
        self.timers.append(timer)
        return timer

    def due(self):
        """Return the timers that are still to come, in order."""
        self.timers = [timer for timer in self.timers if not timer.cancelled]
        return sorted(self.timers, key=lambda timer: timer.when)

    def advance(self, seconds):
        """Let time pass, calling what becomes due in order."""
        end = self.now + seconds
        while (due := self.due()) and due[0].when <= end:
            self.timers.remove(due[0])
            self.now = due[0].when
            due[0].call(*due[0].arguments)
        self.now = end


async def turns(count=5):
    """Let the loop go round a few times, or until two rounds had nothing else to do.

    The second one has looked for input after all else was done: nothing but time can bring more.
    """
    ready, idle = asyncio.get_running_loop()._ready, 0
    for _ in range(count):
        await asyncio.sleep(0)
        idle = 0 if ready else idle + 1
        if idle == 2:
            return
