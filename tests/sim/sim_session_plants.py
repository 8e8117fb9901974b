"""Mistakes to plant into durable sessions, QoS 2 and wills, each a monkeypatch."""

from sim_plants import announce_numbers_that_are_not_reserved

from rowcast.doors.mqtt.broker import Broker
from rowcast.doors.mqtt.client import Client
from rowcast.doors.mqtt.delivery import sending as delivery
from rowcast.doors.mqtt.packets import connect as opening
from rowcast.doors.mqtt.packets import handlers
from rowcast.doors.mqtt.sessions import wills
from rowcast.doors.mqtt.sessions.session import Sessions
from rowcast.doors.mqtt.sessions.session_loading import OWNER
from rowcast.doors.mqtt.sessions.session_persistence import SessionPersistence
from rowcast.features.shared_subscriptions.groups import Group
from rowcast.mqtt.reasons import PacketType
from rowcast.mqtt.window import PACKET_ID_MAX, Window
from rowcast.store.store import Change


def _early(monkeypatch, first):
    """Send packets of a kind before what they say is on disk."""
    write = Client.write_saved

    def hasty(self, frames):
        frames = list(frames)
        if frames[0][0] == first:
            self.out += frames
            write(self, ())
        else:
            write(self, frames)

    monkeypatch.setattr(Client, "write_saved", hasty)


def send_pubrel_before_the_release_is_on_disk(monkeypatch):
    """A kill sends a message again that its client has forgotten."""
    _early(monkeypatch, 0x62)


def send_pubcomp_before_the_identifier_is_free_on_disk(monkeypatch):
    """A kill takes a new message for the one before."""
    _early(monkeypatch, 0x70)


def send_suback_before_the_filter_is_on_disk(monkeypatch):
    """A kill forgets a subscription that was granted."""
    _early(monkeypatch, 0x90)


def send_qos_2_before_its_flight_is_on_disk(monkeypatch):
    """A kill sends a message again, under another identifier."""
    post = delivery._post

    def hasty(client, session, frames, *, after_save):
        del after_save
        post(client, session, frames, after_save=False)

    monkeypatch.setattr(delivery, "_post", hasty)


def send_connack_before_the_session_is_on_disk(monkeypatch):
    """A kill forgets a session that was promised."""

    async def hasty(client, session):
        client.broker.keeper.save(session)

    monkeypatch.setattr(opening, "_saved", hasty)


def commit_identifiers_without_their_events(monkeypatch):
    """A kill takes a publish of QoS 2 that is sent again for a new one."""
    monkeypatch.setattr(SessionPersistence, "taken", lambda _self, _session, _packet_id: ())


def forget_identifiers_with_the_connection(monkeypatch):
    """A publish of QoS 2 that is sent again is taken for a new one."""
    session = opening._session

    def forgetful(client, packet, client_id):
        known, present = session(client, packet, client_id)
        known.inbound.clear()
        return known, present

    monkeypatch.setattr(opening, "_session", forgetful)


def save_the_place_ahead_of_the_flights(monkeypatch):
    """A kill loses what was sent and not acknowledged."""
    add_flights = SessionPersistence._add_flights

    def late(self, changes, session, changed):
        if len(changed) % 2:
            session.changed |= changed
        else:
            add_flights(self, changes, session, changed)

    monkeypatch.setattr(SessionPersistence, "_add_flights", late)


def save_no_place(monkeypatch):
    """A kill sends everything again since the beginning."""
    monkeypatch.setattr(SessionPersistence, "_place", lambda _self, _session: ())


def send_again_without_dup(monkeypatch):
    """A message that was sent before looks like a new one."""
    write = Client.write

    def plain(self, data):
        first = data[0] & ~0x08 if data[0] >> 4 == PacketType.PUBLISH else data[0]
        write(self, bytes((first,)) + data[1:])

    monkeypatch.setattr(Client, "write", plain)


def send_nothing_again(monkeypatch):
    """What was in flight when the connection was lost, is."""

    def empty(session):
        for packet_id, _ in session.window:
            session.window.acknowledge(packet_id)

    monkeypatch.setattr(opening, "begin_again", empty)


def send_again_in_another_order(monkeypatch):
    """The newest first."""
    begin = opening.begin_again

    def backwards(session):
        begin(session)
        if session.resend:
            session.resend.reverse()

    monkeypatch.setattr(opening, "begin_again", backwards)


def send_released_messages_again(monkeypatch):
    """PUBLISH comes in the place of PUBREL."""
    monkeypatch.setattr(Window, "release", lambda self, packet_id, *_: self.item(packet_id))


def use_identifiers_twice(monkeypatch):
    """A new message has the identifier of one in flight."""

    def begin(self, item):
        self._last = self._last % 3 + 1
        self._flights[self._last] = item
        return self._last

    monkeypatch.setattr(Window, "begin", begin)


def ignore_the_receive_maximum(monkeypatch):
    """A client gets more than it asked for."""
    session = opening._session

    def generous(client, packet, client_id):
        known, present = session(client, packet, client_id)
        known.window.receive_maximum = PACKET_ID_MAX
        return known, present

    monkeypatch.setattr(opening, "_session", generous)


def keep_filters_that_have_ended(monkeypatch):
    """A kill brings back a subscription that was ended."""
    monkeypatch.setattr(SessionPersistence, "drop_filter", lambda _self, _session, _text: None)


class _Nothing:
    """A trie that selects nothing."""

    def add(self, *_):
        pass

    remove = add

    def match(self, _topic):
        return ()


def forget_what_must_be_logged(monkeypatch):
    """After a restart nobody remembers what durable sessions ask for."""
    put_back = Broker._put_back

    def forgetful(self, session):
        put_back(self, session)
        self.kernel.durable._matches = _Nothing()

    monkeypatch.setattr(Broker, "_put_back", forgetful)


def send_qos_0_again_after_a_kill(monkeypatch):
    """What may be there already comes once more."""
    put_back = Broker._put_back

    def sure(self, session):
        put_back(self, session)
        for interest in session.filters:
            interest.doubt = 0

    monkeypatch.setattr(Broker, "_put_back", sure)


def send_current_records_again_after_a_kill(monkeypatch):
    """How far they were sent is not on disk."""
    monkeypatch.setattr(SessionPersistence, "_put_owing", lambda _self, _session: None)


def leave_ended_sessions_on_the_disk(monkeypatch):
    """A kill brings back a session that is over."""
    monkeypatch.setattr(SessionPersistence, "_remove", lambda _self, _client_id: None)


def do_not_try_removals_again(monkeypatch):
    """What the disk refuses to remove stays."""

    def once(self, client_id):
        change = Change(OWNER + client_id, "", None)
        self._committer.keep((change,), lambda _error: None)

    monkeypatch.setattr(SessionPersistence, "_remove", once)


def let_sessions_live_for_ever(monkeypatch):
    """Their time is over, and they are there."""
    monkeypatch.setattr(Sessions, "clean_expired", lambda _self: [])


def end_sessions_too_early(monkeypatch):
    """A session lasts half the time that was agreed."""
    leave = Sessions.leave

    def early(self, session, expires_at):
        leave(self, session, self._now() + (expires_at - self._now()) / 2)

    monkeypatch.setattr(Sessions, "leave", early)


def do_not_save_that_a_client_left(monkeypatch):
    """A restart gives a session all its time again."""
    monkeypatch.setattr(SessionPersistence, "leave", lambda _self, _session: None)


def let_two_connections_have_a_session(monkeypatch):
    """A take-over does not end the connection before it."""
    disconnect = Client.disconnect

    def patient(self, reason, message=""):
        if reason != 0x8E:
            disconnect(self, reason, message)

    monkeypatch.setattr(Client, "disconnect", patient)


def keep_wills_in_memory(monkeypatch):
    """A kill forgets a will."""
    begin = SessionPersistence.begin

    def light(self, session):
        will, session.will = session.will, None
        begin(self, session)
        session.will = will

    monkeypatch.setattr(SessionPersistence, "begin", light)


def leave_published_wills_on_the_disk(monkeypatch):
    """A kill publishes a will again."""

    def forgetful(self, due):
        event = wills.event_of_will(due.will, due.client_id)
        self._kernel.submit(event, due.caller, self.refused)

    monkeypatch.setattr(wills.Wills, "_submit", forgetful)


def publish_wills_at_once(monkeypatch):
    """The delay is not waited for."""
    monkeypatch.setattr(wills, "will_delay", lambda _session: 0)


def publish_wills_of_those_who_are_back(monkeypatch):
    """A return in time does not cancel a will."""
    monkeypatch.setattr(opening.wills, "disarm", lambda _session: None)
    monkeypatch.setattr(opening.wills, "forget", lambda _session: None)


def publish_wills_after_goodbye(monkeypatch):
    """A normal end publishes a will."""
    monkeypatch.setattr(handlers, "forget", lambda _session: None)


def lose_wills_that_the_disk_refuses(monkeypatch):
    """A full disk is the end of a will."""

    def once(self, due):
        event = wills.event_of_will(due.will, due.client_id)
        change = wills._removal(due.client_id, due.number)
        self._kernel.submit(event, due.caller, self.refused, None, (change,))

    monkeypatch.setattr(wills.Wills, "_submit", once)


def save_flights_without_their_groups(monkeypatch):
    """A kill has a group assign again what a member has in flight."""
    monkeypatch.setattr(SessionPersistence, "_groups", staticmethod(lambda _session: []))


def forget_open_assignments_of_groups(monkeypatch):
    """A kill loses what was assigned and not acknowledged."""
    monkeypatch.setattr(Group, "_open_seqs", lambda _self: ())


SESSION_PLANTS = (
    send_connack_before_the_session_is_on_disk,
    forget_identifiers_with_the_connection,
    send_released_messages_again,
    use_identifiers_twice,
    ignore_the_receive_maximum,
    leave_ended_sessions_on_the_disk,
    end_sessions_too_early,
    let_two_connections_have_a_session,
    leave_published_wills_on_the_disk,
    publish_wills_at_once,
    publish_wills_of_those_who_are_back,
    publish_wills_after_goodbye,
)
"""Those that the first few seeds notice."""

HIDDEN_PLANTS = {
    announce_numbers_that_are_not_reserved: (153,),
    save_flights_without_their_groups: (9, 11, 5),
    forget_open_assignments_of_groups: (150, 159),
    send_pubrel_before_the_release_is_on_disk: (9, 43, 5),
    send_pubcomp_before_the_identifier_is_free_on_disk: (10, 4, 2),
    send_suback_before_the_filter_is_on_disk: (2, 1, 8),
    send_qos_2_before_its_flight_is_on_disk: (10, 5, 11),
    commit_identifiers_without_their_events: (3, 4, 2),
    save_the_place_ahead_of_the_flights: (9, 13, 5),
    save_no_place: (15, 0, 1),
    send_again_without_dup: (7, 9, 5),
    send_nothing_again: (3, 6, 5),
    send_again_in_another_order: (7, 24),
    keep_filters_that_have_ended: (17, 19, 21),
    forget_what_must_be_logged: (9, 0, 2),
    send_qos_0_again_after_a_kill: (21, 47, 38),
    send_current_records_again_after_a_kill: (22, 4, 9),
    do_not_try_removals_again: (42, 57, 81),
    let_sessions_live_for_ever: (35, 0, 1),
    keep_wills_in_memory: (10, 3, 14),
}
"""Those that need a kill or a fault at the right moment, and seeds whose rough runs notice them.
The quickest is first."""
RARE_PLANTS = (do_not_save_that_a_client_left, lose_wills_that_the_disk_refuses)
"""Those that no rough run of the seeds 0-99 notices; ``scripts/sim --plant`` looks for others.
tests/doors/mqtt/test_broker_disk.py notices both."""
