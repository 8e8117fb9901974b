"""Session persistence: sessions on disk, as facts committed with events.

State that must be durable before a packet is sent is saved first, and the packet waits (``save``):
the session itself before CONNACK, a subscription before SUBACK, a flight of QoS 2 before its
PUBLISH, its release before PUBREL; an inbound QoS 2 identifier is one transaction with its event,
and gone before PUBCOMP. That is what makes QoS 2 exactly once over a kill of the server. Position
and QoS 1 flights follow within SESSION_SAVE_SECONDS (``touch``): a kill can repeat messages sent
since, which QoS 1 permits, and cannot lose any.

A session's facts have the owner ``session/<client id>`` and the names ``session``, ``place``,
``filter/<filter>``, ``exclusive/<filter>``, ``share/<filter>``, ``out/<packet id>`` and
``in/<packet id>``. Its will is a separate fact (``wills``). An inbound identifier names the session
by its ``life``: a message that waits for a hook may be stored when another session has begun.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rowcast.codecs import messagepack
from rowcast.codecs.cbor import encode_sound
from rowcast.core.errors import Error
from rowcast.core.limits import SESSION_REFRESH_SECONDS, SESSION_SAVE_SECONDS
from rowcast.doors.mqtt.delivery.delivery_format import facts_of
from rowcast.doors.mqtt.delivery.sent import Sent, sent_of
from rowcast.doors.mqtt.sessions.loss_accounts import gap_facts
from rowcast.doors.mqtt.sessions.session import Session, Sessions
from rowcast.doors.mqtt.sessions.session_loading import EXCLUSIVE, FILTER, IN, OUT, OWNER, SHARE
from rowcast.doors.mqtt.sessions.wills import Wills, wanted
from rowcast.features.shared_subscriptions.group_table import filter_of
from rowcast.features.shared_subscriptions.groups import Group
from rowcast.kernel.kernel import Kernel
from rowcast.mqtt.window import Flight
from rowcast.store.store import Change
from rowcast.subscriptions.subscription import SubscribedFilter

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle

    from rowcast.doors.mqtt.delivery.delivery_format import DeliveryFormat

log = logging.getLogger("rowcast.mqtt")

Saved = Callable[[Error | None], None]


class SessionPersistence:
    """Stores sessions; ``session_loading`` reads them when the server starts."""

    def __init__(
        self, kernel: Kernel, sessions: Sessions, wills: Wills, loop: "AbstractEventLoop"
    ) -> None:
        self._committer = kernel.committer
        self._sessions, self._wills, self._loop = sessions, wills, loop
        self._dirty: dict[Session, None] = {}
        self._ended: dict[str, object] = {}
        """Client ids of ended sessions whose removal may be pending, with the last removal."""
        self._failed: dict[str, None] = {}
        """Those whose removal failed."""
        self._saves: dict[Session, list[Saved]] = {}
        """Sessions being saved, with the callbacks of the next save."""
        self._stopped = False
        self._timer: TimerHandle | None = None
        self._refresh_timer: TimerHandle | None = None

    @staticmethod
    def owner(session: Session) -> str:
        """Return the owner of a session's facts."""
        return OWNER + session.client_id

    # -- writing -----------------------------------------------------------------------------------

    def touch(self, session: Session) -> None:
        """Save a session soon."""
        self._dirty[session] = None
        self._save_soon()

    def _save_soon(self) -> None:
        if self._timer is None and not self._stopped:
            self._timer = self._loop.call_later(SESSION_SAVE_SECONDS, self._save_dirty)

    def _save_dirty(self) -> None:
        self._timer = None
        dirty, self._dirty = self._dirty, {}
        for session in dirty:
            self.save(session)
        failed, self._failed = self._failed, {}
        for client_id in failed:
            if client_id in self._ended:
                self._remove(client_id)

    def _refresh(self) -> None:
        """Save the positions of idle sessions, ahead of trims of the log."""
        self._refresh_timer = None
        for session in self._sessions:
            if session.kept and session.client is not None:
                self.touch(session)
                self._watch()

    def _watch(self) -> None:
        if self._refresh_timer is None:
            self._refresh_timer = self._loop.call_later(SESSION_REFRESH_SECONDS, self._refresh)

    def stop(self) -> None:
        """Save what is to be saved now, and nothing later than at once."""
        self._stopped = True
        for timer in (self._timer, self._refresh_timer):
            if timer is not None:
                timer.cancel()
        self._save_dirty()

    def lingers(self, client_id: str) -> bool:
        """Whether an ended session may still be on disk."""
        return client_id in self._ended

    def begin(self, session: Session) -> None:
        """Start persisting a session with its will and filters.

        Or, if it is not durable, remove its predecessor.
        """
        owner = self.owner(session)
        if not session.kept:  # removes facts of an earlier session of this client id
            session.unsaved.insert(0, Change(owner, "", None))
            self._ended.pop(session.client_id, None)
        if session.will is not None and session.will_caller is not None:
            session.unsaved.append(self._wills.put(session, session.will, session.will_caller))
        if session.durable:
            session.kept = True
            self._watch()
            session.unsaved.append(Change(owner, "session", _facts_of(session)))

    def leave(self, session: Session) -> None:
        """Record a disconnected session's expiry and position; save it soon."""
        session.unsaved.append(Change(self.owner(session), "session", _facts_of(session)))
        for interest in session.filters:
            if interest.doubt > session.position:
                self.put_filter(session, interest)
        self.touch(session)

    def put_filter(self, session: Session, interest: SubscribedFilter) -> None:
        """Record a subscription."""
        text = interest.topics.text
        name = FILTER + text
        if interest.current is not None or interest.since is not None:
            session.owing[text] = interest.current, interest.since
        else:
            session.owing.pop(text, None)
        session.unsaved.append(Change(self.owner(session), name, encode_sound(_facts(interest))))

    def drop_filter(self, session: Session, text: str) -> None:
        """Record the removal of a subscription."""
        session.unsaved.append(Change(self.owner(session), FILTER + text, None))

    def put_exclusive(self, session: Session, text: str) -> None:
        """Record an exclusive filter."""
        session.unsaved.append(Change(self.owner(session), EXCLUSIVE + text, b""))

    def drop_exclusive(self, session: Session, text: str) -> None:
        """Record the release of an exclusive filter."""
        session.unsaved.append(Change(self.owner(session), EXCLUSIVE + text, None))

    def put_share(self, session: Session, text: str, interest: SubscribedFilter) -> None:
        """Record a shared subscription."""
        facts = _facts(interest) | {"topics": interest.topics.text}  # a hook may have changed it
        session.unsaved.append(Change(self.owner(session), SHARE + text, encode_sound(facts)))

    def drop_share(self, session: Session, text: str) -> None:
        """Record the removal of a shared subscription."""
        session.unsaved.append(Change(self.owner(session), SHARE + text, None))

    def taken(self, session: Session, packet_id: int) -> tuple[Change, ...]:
        """Return the changes to commit with an inbound QoS 2 message."""
        if not session.kept:
            return ()
        return (Change(self.owner(session), f"{IN}{packet_id}", encode_sound(session.life)),)

    def released(self, session: Session, packet_id: int) -> None:
        """Record the release of an inbound QoS 2 identifier."""
        session.unsaved.append(Change(self.owner(session), f"{IN}{packet_id}", None))

    def save(self, session: Session, done: Saved | None = None) -> None:
        """Save a session; ``done`` is called when it is durable.

        Saves of a session are sequential: a failed one is repeated by the next, and no older state
        overwrites a newer one.
        """
        waiting = self._saves.get(session)
        if waiting is not None:
            waiting.append(done or _nobody)
            return
        self._dirty.pop(session, None)  # a timer that finds nothing costs less than to stop it
        if session.owing:
            self._put_owing(session)
        unsaved, session.unsaved = wanted(session, session.unsaved), []
        changed, session.changed = session.changed, {}
        changes = list(unsaved)
        if session.kept:
            changes += self._place(session)
            self._add_flights(changes, session, changed)
        sharing, groups = session.sharing, self._groups(session)
        if sharing is not None:
            changes += sharing.table.changes(groups)  # otherwise a group would assign it again
        if not changes:
            if done is not None:
                self._committer.keep((), done)
            return
        mine: list[Saved] = []
        self._saves[session] = mine

        def ended(error: Error | None) -> None:
            current = self._saves.get(session) is mine  # otherwise it was removed meanwhile
            if current:
                del self._saves[session]
            if error is not None:
                log.warning("the session of %r is not saved: %s", session.client_id, error.message)
                if sharing is not None:
                    sharing.table.failed(groups)
                if current:
                    self._not_saved(session, unsaved, changed)
                else:
                    self._wills.drop(*unsaved)
            if done is not None:
                done(error)
            if mine and current:
                self.save(session, partial(_complete, mine))

        self._committer.keep(changes, ended)

    def _not_saved(self, session: Session, unsaved: list[Change], changed: dict[int, None]) -> None:
        """Retry a failed save soon."""
        session.unsaved[:0] = unsaved
        session.changed |= changed
        session.saved |= changed  # overwrites the state on disk
        session.saved_place = None
        self.touch(session)

    def _put_owing(self, session: Session) -> None:
        """Record the progress of backfills."""
        for interest in session.interests:
            known = session.owing.get(interest.topics.text)
            if known is not None and known != (interest.current, interest.since):
                self.put_filter(session, interest)

    @staticmethod
    def _groups(session: Session) -> list[Group]:
        """Return the groups whose states changed with the session."""
        if session.sharing is None:
            return []
        return [group for group in session.sharing.groups if group.changed]

    def _place(self, session: Session) -> Sequence[Change]:
        skipped = [[item.after, item.last, item.count, item.expired] for item in session.ahead]
        place = [session.place, *skipped] if skipped else session.place
        if place == session.saved_place:
            return ()
        session.saved_place = place
        return (Change(self.owner(session), "place", encode_sound(place)),)

    def _add_flights(
        self, changes: list[Change], session: Session, changed: dict[int, None]
    ) -> None:
        owner, saved = self.owner(session), session.saved
        for packet_id in changed:
            flight = session.window.flight(packet_id)
            sent = sent_of(flight) if flight is not None else None
            # A notice with QoS 2 cannot be sent again, but its identifier must survive a kill.
            if flight is not None and sent is not None and (sent.seq or sent.qos == 2):
                saved[packet_id] = None
                changes.append(Change(owner, f"{OUT}{packet_id}", _value_of(flight, sent)))
            elif packet_id in saved:
                saved.pop(packet_id, None)
                changes.append(Change(owner, f"{OUT}{packet_id}", None))

    def forget(self, session: Session) -> None:
        """Remove a session from the disk."""
        self._dirty.pop(session, None)
        waiting = self._saves.pop(session, [])
        self._wills.drop(*session.unsaved)
        session.unsaved.clear()
        session.changed.clear()
        session.saved.clear()
        session.owing.clear()
        session.kept = False
        self._remove(session.client_id)
        if waiting:
            self._committer.keep((), partial(_complete, waiting))

    def _remove(self, client_id: str) -> None:
        """Remove the facts of a client id; retries soon on failure."""
        removal = self._ended[client_id] = object()

        def ended(error: Error | None) -> None:
            if self._ended.get(client_id) is not removal:
                return  # a session created meanwhile removes it itself
            if error is None:
                del self._ended[client_id]
                return
            log.warning("the end of %r is not saved: %s", client_id, error.message)
            self._failed[client_id] = None
            self._save_soon()

        self._committer.keep((Change(OWNER + client_id, "", None),), ended)


def _nobody(_error: Error | None) -> None:
    """Ignore the result of a save without a waiter."""


def _complete(waiting: Iterable[Saved], error: Error | None) -> None:
    for done in waiting:
        done(error)


def _facts(interest: SubscribedFilter) -> dict[str, object]:
    form: DeliveryFormat = interest.form  # type: ignore[assignment]
    return {
        "qos": interest.qos,
        "no_local": interest.no_local,
        "as_published": interest.retain_as_published,
        "ids": list(interest.identifiers),
        **facts_of(form),
        "floor": interest.floor,
        "doubt": interest.doubt,
        "plain": interest.plain,
        "local_floor": interest.local_floor,
        "current": interest.current,
        "since": interest.since,
        "gaps": interest.gaps,
        "commits": interest.commits,
        "conflate": interest.conflate,
    } | ({"asked": interest.asked} if interest.asked else {})


def _value_of(flight: Flight, sent: Sent) -> bytes:
    """Return the values of ``FLIGHT``: a message of QoS 2 writes them twice."""
    form = sent.form
    facts: list[object] = [
        sent.seq,
        sent.topic if sent.named else "",
        sent.qos,
        sent.retain,
        list(sent.identifiers),
        form.media_type,
        form.tells_seq,
        form.tells_meta,
        sent.order,
        flight.sent_at,
        flight.retries,
        flight.released,
        filter_of(sent.assignment.group) if sent.assignment is not None else "",
    ]
    if sent.payload:
        return messagepack.encode_sound([*facts, sent.payload])
    return messagepack.encode_plain(facts)


def _facts_of(session: Session) -> bytes:
    facts = {
        "created": session.created_at,
        "life": session.life,
        "expiry": session.expiry_seconds,
        "expires": session.expires_at,
        "left": session.left_at,
        "user": session.user,
        "will": session.will_number,
        "gaps": gap_facts(session) if session.client is None else {},
    }
    return encode_sound(facts)
