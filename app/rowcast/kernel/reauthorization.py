"""Reauthorization: live readers are checked again when users, roles, tokens or rules change.

A Caller is a user at sign-in. Later the user may be removed or get other roles, its token may
expire, the rules may change: the component concerned calls ``changed``. The doors listen; each
calls ``current`` for its live readers and closes those no longer authorised, with the Error's
message as the reason (L8, C28). Single requests are authorised when they arrive.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from rowcast.core.authentication_limits import ACCESS_END_SECONDS, ACCESS_TIMER_SECONDS_MAX
from rowcast.core.callers import Caller
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.subscriptions.subscription import Subscription

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel
    from rowcast.routes.resource import Resource

log = logging.getLogger("rowcast")


class Reauthorization:
    """Resolves callers through features, and notifies doors of changes."""

    def __init__(self, now: WallClock) -> None:
        self._now = now
        self.judges: list[Callable[[Caller], Caller]] = []
        """Called in order; each returns the current caller, or raises the Error."""
        self.removals: list[Callable[[str], bool]] = []
        """Called to check whether a user has been removed for good."""
        self.alterations: list[Callable[[str], None]] = []
        """Called when a user may read something else than before; with an empty name: anybody."""
        self.rights_in_force: list[Callable[[], object]] = []
        """Each returns what a feature knows of who may read what; a ``fingerprint`` of all tells
        after a restart whether it is as before."""
        self.revision = 0
        """Incremented on each change; cached answers are valid for one revision."""
        self._listeners: list[Callable[[], None]] = []
        self._next = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def current(self, caller: Caller) -> Caller:
        """Return the current caller; the same object if unchanged.

        Raises UNAUTHENTICATED or DENIED when it is no longer valid.
        """
        if caller.door != "server":
            for judge in self.judges:
                caller = judge(caller)
        return caller

    def writer(self, caller: Caller) -> Caller:
        """Return who wrote something that is due only now, with its current rights (L8).

        Raises for a removed or disabled user; a changed password, or a token that is over, does not
        invalidate earlier writes. The server's own callers are no users.
        """
        if caller.user.startswith("$"):
            return caller
        try:
            return self.current(caller)
        except Error as error:
            if error.code is Code.DENIED or self.removed(caller.user):
                raise
            return caller

    def removed(self, user: str) -> bool:
        """Whether a user has been removed for good."""
        return any(removed(user) for removed in self.removals)

    def listen(self, listener: Callable[[], None]) -> None:
        """Register a door's callback for changes."""
        self._listeners.append(listener)

    def altered(self, user: str = "") -> None:
        """Called when rules or roles have changed, or those of one user; ``changed`` follows."""
        for listener in self.alterations:
            listener(user)

    def changed(self) -> None:
        """Called when users, roles or rules have changed."""
        self.revision += 1
        for listener in self._listeners:
            try:
                listener()
            except Exception:  # the other doors judge their readers all the same
                log.exception("readers of a door could not be judged")

    def expect(self, caller: Caller) -> None:
        """Schedule a check of live readers when this caller's credentials expire (L5)."""
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
        self.changed()  # the doors call ``expect`` again for all that stay

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def stay(kernel: "Kernel", subscription: Subscription, caller: Caller | None = None) -> Caller:
    """Reauthorise a subscription's caller, and return it; raises the Error if it must close."""
    asked = caller or subscription.caller
    current = kernel.reauthorization.current(asked)
    kernel.reauthorization.expect(current)
    renew(kernel, subscription, current)
    return current


def judge_resource(resource: "Resource", source: object) -> None:
    """Reauthorise the client of a resource's own stream; raises the Error if it must close."""
    kernel = cast("Kernel", resource.kernel)
    before, resource.caller = resource.caller, kernel.reauthorization.current(resource.caller)
    kernel.reauthorization.expect(resource.caller)
    kernel.authorise_read(resource.topic, resource.caller)
    subscription = subscription_of(source)
    if subscription is not None:
        renew(kernel, subscription, resource.caller)
    elif resource.caller is not before:  # its output was chosen for the former caller
        raise Error(Code.UNAUTHENTICATED, "your access rights have changed; connect again")


def subscription_of(source: object) -> Subscription | None:
    """Return the kernel's subscription that a resource's ``connect`` relays, if any."""
    found = getattr(source, "subscription", None)
    return found if isinstance(found, Subscription) else None


def renew(kernel: "Kernel", subscription: Subscription, caller: Caller) -> None:
    """Continue a subscription with a reauthorised caller.

    Raises DENIED when a filter is no longer allowed: the door then closes the reader, so that it
    does not wait for events that never come.
    """
    for interest in subscription.interests:
        kernel.rights.check_watch(interest.watched, caller)  # what is fixed was asked at its start
    kernel.attach_caller(subscription, caller)
