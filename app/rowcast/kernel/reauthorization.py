"""Reauthorization: live readers are judged anew when users, roles, tokens or rules change.

A Caller is a user as it was when it signed in. Later the user may be removed or given other roles,
its token may be over, the rules may be others: whoever knows of it calls ``changed``. The doors
listen; each asks ``current`` about its live readers and ends those that may not stay, with the
Error's sentence as the reason (L8, C28). A request that is answered at once needs none of
this: it is judged when it comes.
"""

import asyncio
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from rowcast.core.callers import Caller
from rowcast.core.clock import WallClock
from rowcast.core.entry_limits import ACCESS_END_SECONDS, ACCESS_TIMER_SECONDS_MAX
from rowcast.core.errors import Code, Error
from rowcast.subscriptions.subscription import Subscription

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel
    from rowcast.kernel.resource import Resource


class Reauthorization:
    """Asks the features that know users what a caller is now, and tells the doors to ask."""

    def __init__(self, now: WallClock) -> None:
        self._now = now
        self.judges: list[Callable[[Caller], Caller]] = []
        """Asked in order what a caller is now: itself, another, or the Error why it is none."""
        self.removals: list[Callable[[str], bool]] = []
        """Asked whether a user has been removed, and can never come back as it was."""
        self.revision = 0
        """How often anything has changed; who keeps an answer keeps it for one revision."""
        self._listeners: list[Callable[[], None]] = []
        self._next = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def current(self, caller: Caller) -> Caller:
        """Return a caller as it is now; itself, if nothing of it has changed.

        Raises UNAUTHENTICATED or DENIED when it may no longer be here.
        """
        if caller.door != "server":
            for judge in self.judges:
                caller = judge(caller)
        return caller

    def removed(self, user: str) -> bool:
        """Tell whether a user has been removed, and can never come back as it was."""
        return any(removed(user) for removed in self.removals)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call a door whenever its live readers are to be judged anew."""
        self._listeners.append(listener)

    def changed(self) -> None:
        """Hear that users, roles or rules are others now."""
        self.revision += 1
        for listener in self._listeners:
            listener()

    def expect(self, caller: Caller) -> None:
        """Have live readers judged when what this one showed is over (L5)."""
        if caller.until < self._next:
            self._wait(caller.until)

    def _wait(self, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = until
        seconds = min(max(0.0, until - self._now()), ACCESS_TIMER_SECONDS_MAX)
        self._timer = asyncio.get_running_loop().call_later(
            seconds + ACCESS_END_SECONDS, self._over
        )

    def _over(self) -> None:
        self._timer, self._next = None, math.inf
        self.changed()  # the doors tell of the next one: they ask ``expect`` of all that stay

    def stop(self) -> None:
        """Wait for nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def stay(kernel: "Kernel", subscription: Subscription, caller: Caller | None = None) -> Caller:
    """Judge who reads a subscription; return it as it is now. Raises why it may not go on."""
    asked = caller or subscription.caller
    current = kernel.access.current(asked)
    kernel.access.expect(current)
    renew(kernel, subscription, current)
    return current


def judge_resource(resource: "Resource", source: object) -> None:
    """Judge who is sent what a resource class has of its own. Raises why it may not go on."""
    kernel = cast("Kernel", resource.kernel)
    before, resource.caller = resource.caller, kernel.access.current(resource.caller)
    kernel.access.expect(resource.caller)
    kernel.authorise_read(resource.topic, resource.caller)
    subscription = subscription_of(source)
    if subscription is not None:
        renew(kernel, subscription, resource.caller)
    elif resource.caller is not before:  # what it sends was chosen for who it was
        raise Error(Code.UNAUTHENTICATED, "what you may do has changed; connect anew")


def subscription_of(source: object) -> Subscription | None:
    """Return what of the kernel a resource's ``connect`` passes on, if it does."""
    found = getattr(source, "subscription", None)
    return found if isinstance(found, Subscription) else None


def renew(kernel: "Kernel", subscription: Subscription, caller: Caller) -> None:
    """Go on reading as a caller that is judged anew.

    Raises DENIED when a filter may no longer be watched: then the reader has to be told, so its
    door ends it, rather than that it waits for what never comes.
    """
    for interest in subscription.interests:
        kernel.authorise_watch(interest.topics, caller)
    kernel.attach_caller(subscription, caller)
