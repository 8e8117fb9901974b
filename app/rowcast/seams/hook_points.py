"""Hook points: the calls that doors and the kernel make to user code; here they do nothing.

Doors report connections and sessions, the kernel asks about subscriptions and writes. The hooks
feature subclasses ``HookPoints`` and ``WriteGate`` and assigns its own to ``HookSeams``.
"""

from collections.abc import Awaitable, Callable, Sequence

from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.seams.listeners import Listeners
from rowcast.subscriptions.subscribed_filters import SubscribedFilter
from rowcast.writes.write import Done


class HookPoints:
    """Calls about connections, sessions and subscriptions; each also notifies the listeners."""

    hears_connections = False
    """Whether anybody hears ``connection``."""
    connecting = False
    """Whether ``connect`` may refuse a connection, or waits."""
    subscribing = False
    """Whether ``subscribe`` may change or refuse a filter."""
    subscribe_waits = False
    """Whether a filter needs ``subscribe_waiting``."""
    delivering = False
    """Whether delivered events may be changed or withheld."""
    supplying = False
    """Whether retained messages are also kept outside the store (``Reader.supply``)."""

    def __init__(self, listeners: Listeners) -> None:
        self.listeners = listeners

    # -- connections and sessions: called by the doors ---------------------------------------------

    def connection(self, caller: Caller) -> None:
        """Report a connection whose user is not authenticated yet."""

    async def connect(self, caller: Caller, packet: object = None) -> None:
        """Ask whether a connection may begin; raises the first refusal."""

    def connected(self, caller: Caller) -> None:
        """Report an accepted connection."""
        self.listeners.notify("connected", caller)

    def auth_failed(self, caller: Caller, message: str) -> None:
        """Report a failed authentication, or a user who is not admitted."""
        self.listeners.refused(caller, "sign-in", "", Error(Code.UNAUTHENTICATED, message))

    def disconnected(self, caller: Caller, error: str | None = None) -> None:
        """Report the end of a connection; ``error`` unless the client closed it."""
        code = getattr(error, "code", None)
        self.listeners.notify("disconnected", caller, reason=error, code=code)

    def session_created(self, caller: Caller) -> None:
        """Report a new session."""

    def session_resumed(self, caller: Caller) -> None:
        """Report a client that resumed its session."""

    def session_ended(self, client_id: str) -> None:
        """Report a session that was deleted."""

    # -- subscriptions: called by the kernel -------------------------------------------------------

    def subscribe(self, caller: Caller, interest: SubscribedFilter) -> bool:  # noqa: ARG002
        """Change or refuse a subscription before it begins; return whether its filter changed."""
        return False

    async def subscribe_waiting(self, caller: Caller, interest: SubscribedFilter) -> bool:
        """Do the same where user code must be awaited."""
        return self.subscribe(caller, interest)

    def subscribed(self, caller: Caller, interest: SubscribedFilter) -> None:
        """Report a subscription that has begun."""
        self.listeners.notify("subscribed", caller, filter=interest.topics.text, qos=interest.qos)

    def unsubscribed(self, caller: Caller, text: str) -> None:
        """Report a subscription that has ended."""

    # -- resource classes --------------------------------------------------------------------------

    async def authorise(self, caller: Caller, event: Event) -> None:
        """Ask whether a caller may send an event to a resource class; raises a refusal."""


class WriteGate:
    """What writes pass before they are admitted; a subclass may change, refuse or delay them."""

    @property
    def may_drop(self) -> bool:
        """Whether a write may end here as if it had succeeded."""
        return False

    async def together(
        self,
        events: Sequence[Event],
        caller: Caller,  # noqa: ARG002
        go_on: Callable[[list[Event | None]], Awaitable[None]],
    ) -> None:
        """Pass the events of an atomic batch; raises the first refusal.

        ``go_on`` is awaited with the events as changed, None for a dropped one, in the order of the
        caller's writes.
        """
        await go_on(list(events))

    def notifying(self, caller: Caller, done: Done) -> Done:  # noqa: ARG002
        """Return a ``done`` that also reports the write when it has succeeded."""
        return done

    async def notify(self, caller: Caller, events: Sequence[Event]) -> None:
        """Report events that a caller has written; return once all who hear of them have."""

    def __contains__(self, caller: object) -> bool:
        """Return whether writes of a caller are waiting here."""
        return False

    def after(
        self,
        caller: Caller,  # noqa: ARG002
        call: Callable[[], None],
        refuse: Callable[[Error], None],  # noqa: ARG002
    ) -> None:
        """Call ``call`` once the caller's waiting writes have passed, or ``refuse`` if it cannot.

        It is called at once if none is waiting.
        """
        call()

    async def stop(self) -> None:
        """Refuse the waiting writes."""


class HookSeams:
    """The seams for user code."""

    def __init__(self) -> None:
        self.listeners = Listeners()
        """Notified of connections, administration and refusals."""
        self.hooks = HookPoints(self.listeners)
        """Called by doors and the kernel; the hooks feature replaces it."""
        self.gate = WriteGate()
        """Passed by atomic batches and asked for waiting writes; the hooks feature replaces it."""
