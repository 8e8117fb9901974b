"""Who is it: CONNECT with a password, or a dialogue of AUTH packets (D44, L1, L2, L9)."""

import pytest

from memory_users import ScramClient, ann_and_bob, cheap_passwords, user
from mqtt_server import (
    Connack,
    Connect,
    Disconnect,
    MqttServer,
    Pingreq,
    Pingresp,
    Puback,
    payloads,
)
from rowcast.auth.authenticator import Authenticator
from rowcast.auth.tries import LoginRateLimit
from rowcast.core.callers import Grants
from rowcast.mqtt.connection import Connection
from rowcast.mqtt.packets import Auth, Will
from rowcast.mqtt.reasons import Reason

METHOD = "SCRAM-SHA-256"
CONTINUE, AGAIN = Reason.CONTINUE_AUTHENTICATION, Reason.RE_AUTHENTICATE


async def at_once(call, password):
    """Check a password without a thread."""
    return call(password)


class Guarded(MqttServer):
    """A broker with users; what listeners of refusals hear is in ``told``."""

    def __init__(self, policy="loopback", required=("mqtt",), tries=None, **settings):
        self.users = ann_and_bob()
        self.authenticator = Authenticator(policy, self.users, required, bytes, tries=tries)
        self.authenticator._passwords = cheap_passwords(self.users, at_once)
        super().__init__(authenticator=self.authenticator, **settings)
        self.told = []
        self.kernel.hooks.on("auth-failed", lambda *facts: self.told.append(facts))


@pytest.fixture
async def world():
    return Guarded()


def said(data=None, method=METHOD):
    """Return the properties of a step."""
    properties = {"authentication_method": method} if method is not None else {}
    return properties | ({"authentication_data": data} if data is not None else {})


class Talk:
    """A client that signs in by SCRAM."""

    def __init__(self, world, name="ann", password="pencil", client_id="c", peer="127.0.0.1"):
        self.world = world
        self.client_id = client_id
        self.scram = ScramClient(name, password)
        self.peer = world.peer(5, peer=peer)
        self.peer.decoder = Connection("client", version=5, authentication=True)

    async def begin(self, **options):
        """Send CONNECT; return the answer."""
        options = {"properties": said(self.scram.first), **options}
        (answer,) = await self.peer.ask(Connect(5, self.client_id, **options))
        return answer

    async def answer(self, asked, reason=CONTINUE):
        """Answer the server's challenge; return what comes back."""
        data = self.scram.final(asked.properties["authentication_data"])
        return await self.peer.ask(Auth(reason, said(data)))

    async def sign_in(self):
        (connack,) = await self.answer(await self.begin())
        assert (Connack, Reason.SUCCESS) == (type(connack), connack.reason)
        return connack

    async def again(self, name="ann", password="pencil"):
        """Begin a re-authentication; return the answers."""
        self.scram = ScramClient(name, password)
        return await self.peer.ask(Auth(AGAIN, said(self.scram.first)))


def ended(packets):
    """Return why the server ended the connection."""
    assert [Disconnect] == [type(packet) for packet in packets]
    return packets[0].reason


# -- passwords -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_a_user_signs_in_with_a_password(world, version):
    peer = world.peer(version, peer="10.0.0.1")
    assert Reason.SUCCESS is (await peer.connect(username="ann", password=b"pencil")).reason
    assert ("ann", "c", "10.0.0.1", "mqtt") == (
        peer.client.caller.user,
        peer.client.caller.client_id,
        peer.client.caller.peer,
        peer.client.caller.door,
    )


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"username": "ann", "password": b"x"}, Reason.BAD_USER_NAME_OR_PASSWORD),
        ({"username": "eve", "password": b"x"}, Reason.BAD_USER_NAME_OR_PASSWORD),
        ({"username": "ann"}, Reason.BAD_USER_NAME_OR_PASSWORD),
        ({"username": "ann", "password": b"\xff\0"}, Reason.BAD_USER_NAME_OR_PASSWORD),
        ({"username": "", "password": b""}, Reason.BAD_USER_NAME_OR_PASSWORD),
        ({"username": "a" * 65_535, "password": b"x" * 65_535}, Reason.BAD_USER_NAME_OR_PASSWORD),
        ({}, Reason.NOT_AUTHORIZED),
    ],
)
async def test_anybody_else_is_refused(world, version, options, reason):
    peer = world.peer(version)
    connack = await peer.connect(**options)
    assert (False, reason) == (connack.session_present, connack.reason)
    assert peer.closed
    assert (1, 1) == (world.authenticator.failures, len(world.told))


async def test_a_password_without_a_name_is_refused(world):
    """MQTT 5 permits it (3.1.2.9); it is nobody's."""
    connack = await world.peer().connect(password=b"pencil")
    assert Reason.BAD_USER_NAME_OR_PASSWORD is connack.reason
    assert "together" in connack.properties["reason_string"]


async def test_who_failed_is_told_to_listeners(world):
    await world.peer().connect("sensor-7", username="eve", password=b"x")
    assert "eve" in repr(world.told)
    assert "the user name or the password is wrong" in repr(world.told)


@pytest.mark.parametrize(
    ("policy", "peer", "accepted"),
    [
        ("loopback", "127.0.0.1", True),
        ("loopback", "10.0.0.1", False),
        ("everywhere", "10.0.0.1", True),
    ],
)
async def test_where_signing_in_is_not_required(policy, peer, accepted):
    """L1: then security.anonymous decides."""
    world = Guarded(policy, required=())
    connack = await world.peer(peer=peer).connect()
    assert (Reason.SUCCESS if accepted else Reason.NOT_AUTHORIZED) is connack.reason


async def test_a_user_may_do_no_more_than_it_may(world):
    peer = await world.connected("c", username="bob", password=b"eraser")
    peer.publish("Dog/1", b'{"name":"Rex"}', qos=1)
    (puback,) = await peer.hear()
    assert (Puback, Reason.NOT_AUTHORIZED) == (type(puback), puback.reason)
    assert (Reason.GRANTED_QOS_0,) == await peer.subscribe("Dog/1")


# -- by dialogue -----------------------------------------------------------------------------------


async def test_a_dialogue_signs_in(world):
    """MQTT-4.12.0-2, MQTT-4.12.0-3, MQTT-4.12.0-5: the method is in every packet of it."""
    talk = Talk(world)
    asked = await talk.begin()
    assert (Auth, CONTINUE, METHOD) == (
        type(asked), asked.reason, asked.properties["authentication_method"],
    )  # fmt: skip
    (connack,) = await talk.answer(asked)
    assert (Reason.SUCCESS, METHOD) == (
        connack.reason, connack.properties["authentication_method"],
    )  # fmt: skip
    assert talk.scram.trusts(connack.properties["authentication_data"])
    assert "ann" == talk.peer.client.caller.user
    assert [Pingresp()] == await talk.peer.ask(Pingreq())


async def test_a_client_that_says_nothing_first_is_asked(world):
    talk = Talk(world)
    asked = await talk.begin(properties=said())
    assert Auth(CONTINUE, said()) == asked
    (challenge,) = await talk.peer.ask(Auth(CONTINUE, said(talk.scram.first)))
    (connack,) = await talk.answer(challenge)
    assert Reason.SUCCESS is connack.reason


async def test_the_caller_is_who_proved_it_whatever_connect_says(world):
    talk = Talk(world)
    await talk.answer(await talk.begin(username="bob", password=b"eraser"))
    assert "ann" == talk.peer.client.caller.user


@pytest.mark.parametrize("method", ["PLAIN", "scram-sha-256", ""])
async def test_another_method_is_refused(world, method):
    """MQTT-4.12.0-1."""
    talk = Talk(world)
    connack = await talk.begin(properties=said(b"x", method))
    assert (Connack, Reason.BAD_AUTHENTICATION_METHOD) == (type(connack), connack.reason)
    assert talk.peer.closed
    assert 1 == world.authenticator.failures


async def test_without_users_no_method_is_offered():
    world = MqttServer()
    connack = await Talk(world).begin()
    assert Reason.BAD_AUTHENTICATION_METHOD is connack.reason


@pytest.mark.parametrize(("name", "password"), [("ann", "x"), ("eve", "pencil")])
async def test_a_wrong_proof_is_refused_at_the_end(world, name, password):
    """MQTT-4.12.0-4: no other packet but CONNACK says so."""
    talk = Talk(world, name, password)
    (connack,) = await talk.answer(await talk.begin())
    assert (Connack, Reason.BAD_USER_NAME_OR_PASSWORD) == (type(connack), connack.reason)
    assert talk.peer.closed
    assert name in repr(world.told)


async def test_a_broken_message_is_refused_with_a_sentence(world):
    connack = await Talk(world).begin(properties=said(b"\xff"))
    assert Reason.IMPLEMENTATION_SPECIFIC_ERROR is connack.reason
    assert "UTF-8" in connack.properties["reason_string"]


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        pytest.param(
            Auth(CONTINUE, said(b"x", "PLAIN")), Reason.BAD_AUTHENTICATION_METHOD, id="other method"
        ),
        pytest.param(Auth(AGAIN, said(b"x")), Reason.PROTOCOL_ERROR, id="0x19 before CONNACK"),
        pytest.param(Pingreq(), Reason.PROTOCOL_ERROR, id="MQTT-3.1.2-30"),
        pytest.param(Connect(5, "c"), Reason.PROTOCOL_ERROR, id="MQTT-3.1.0-2"),
    ],
)
async def test_what_may_not_come_meanwhile_ends_it(world, packet, reason):
    talk = Talk(world)
    await talk.begin()
    (connack,) = await talk.peer.ask(packet)
    assert (Connack, reason) == (type(connack), connack.reason)
    assert talk.peer.closed
    assert len(world.broker.sessions) == 0


async def test_two_answers_at_once_end_it(world):
    talk = Talk(world)
    asked = await talk.begin()
    data = talk.scram.final(asked.properties["authentication_data"])
    (connack,) = await talk.peer.ask(*[Auth(CONTINUE, said(data))] * 2)
    assert Reason.PROTOCOL_ERROR is connack.reason


async def test_a_client_that_never_answers_is_cut_by_the_connect_time_out(world):
    """D7."""
    talk = Talk(world)
    await talk.begin(will=Will("Dog/1", b"{}"))
    await world.pass_time(10.1)
    assert [] == talk.peer.heard()
    assert talk.peer.closed
    assert (0, 0) == (len(world.broker.clients), len(world.broker.sessions))


@pytest.mark.parametrize("way", ["disconnect", "lost", "server"])
async def test_an_end_in_the_middle_leaves_nothing(world, way):
    talk = Talk(world)
    await talk.begin()
    opening = talk.peer.client.opening
    if way == "disconnect":
        talk.peer.send(Disconnect())
    elif way == "lost":
        talk.peer.lose()
    else:
        talk.peer.client.disconnect(Reason.SERVER_SHUTTING_DOWN)
    await talk.peer.hear()
    assert opening.done()
    assert talk.peer.closed or way == "lost"
    assert (0, 0) == (len(world.broker.clients), len(world.broker.sessions))


async def test_auth_without_a_method_is_a_protocol_error(world):
    """MQTT-4.12.0-7."""
    peer = await world.connected("c", username="ann", password=b"pencil")
    assert Reason.PROTOCOL_ERROR is ended(await peer.ask(Auth(AGAIN, said(b"x"))))


# -- re-authentication -----------------------------------------------------------------------------


async def test_a_client_proves_itself_again(world):
    """MQTT 5, 4.12.1: AUTH 0x19, 0x18, 0x18, 0x00; other packets go on meanwhile."""
    talk = Talk(world)
    await talk.sign_in()
    for _ in range(2):
        (asked,) = await talk.again()
        assert (Auth, CONTINUE) == (type(asked), asked.reason)
        assert [Pingresp()] == await talk.peer.ask(Pingreq())
        (done,) = await talk.answer(asked)
        assert (Auth, Reason.SUCCESS, METHOD) == (
            type(done), done.reason, done.properties["authentication_method"],
        )  # fmt: skip
        assert talk.scram.trusts(done.properties["authentication_data"])
    assert not talk.peer.closed


async def test_what_a_user_may_do_is_looked_at_again(world):
    talk = Talk(world)
    await talk.sign_in()
    caller = talk.peer.client.caller
    await talk.answer((await talk.again())[0])
    assert caller is talk.peer.client.caller
    world.users.add(user("ann", "pencil", Grants(read=True)))
    await talk.answer((await talk.again())[0])
    talk.peer.publish("Dog/1", b'{"name":"Rex"}', qos=1)
    (puback,) = await talk.peer.hear()
    assert Reason.NOT_AUTHORIZED is puback.reason


@pytest.mark.parametrize(
    ("name", "password", "told"),
    [
        pytest.param("ann", "x", "password is wrong", id="MQTT-4.12.1-2"),
        pytest.param("bob", "eraser", "cannot change its user", id="somebody else"),
    ],
)
async def test_a_failure_ends_the_connection(world, name, password, told):
    talk = Talk(world)
    await talk.sign_in()
    packets = await talk.answer((await talk.again(name, password))[0])
    assert Reason.NOT_AUTHORIZED is ended(packets)
    assert told in packets[0].properties["reason_string"]
    assert talk.peer.closed
    assert name in repr(world.told)
    assert 1 == world.authenticator.failures


async def test_a_broken_message_ends_the_connection(world):
    talk = Talk(world)
    await talk.sign_in()
    assert Reason.NOT_AUTHORIZED is ended(await talk.peer.ask(Auth(AGAIN, said(b"\xff"))))


async def test_a_mistake_of_the_server_ends_the_connection(world, caplog, monkeypatch):
    async def fail(_name):
        raise RuntimeError("secret")

    talk = Talk(world)
    await talk.sign_in()
    monkeypatch.setattr(world.users, "find", fail)
    packets = await talk.again()
    assert Reason.UNSPECIFIED_ERROR is ended(packets)
    assert "secret" not in repr(packets)
    assert "secret" in caplog.text


@pytest.mark.parametrize(
    ("packets", "reason"),
    [
        pytest.param(
            [Auth(AGAIN, said(b"x", "PLAIN"))], Reason.BAD_AUTHENTICATION_METHOD,
            id="MQTT-4.12.1-1",
        ),
        pytest.param(
            [Auth(AGAIN, said(b"x", None))], Reason.PROTOCOL_ERROR,
            id="MQTT-4.12.0-5",
        ),
        pytest.param([Auth(CONTINUE, said(b"x"))], Reason.PROTOCOL_ERROR, id="0x18 unasked"),
        pytest.param(
            [Auth(AGAIN, said(ScramClient("ann", "pencil").first))] * 2, Reason.PROTOCOL_ERROR,
            id="0x19 twice",
        ),
    ],
)  # fmt: skip
async def test_what_is_out_of_order_ends_the_connection(world, packets, reason):
    talk = Talk(world)
    await talk.sign_in()
    assert reason is ended(await talk.peer.ask(*packets))


async def test_beginning_anew_in_the_middle_ends_the_connection(world):
    talk = Talk(world)
    await talk.sign_in()
    await talk.again()
    assert Reason.PROTOCOL_ERROR is ended(await talk.again())


async def test_a_connection_lost_in_the_middle_is_told_nothing(world):
    talk = Talk(world)
    await talk.sign_in()
    (asked,) = await talk.again()
    talk.peer.send(Auth(CONTINUE, said(talk.scram.final(asked.properties["authentication_data"]))))
    talk.peer.lose()
    assert [] == await talk.peer.hear()
    assert 0 == len(world.broker.clients)


# -- whose a session is ----------------------------------------------------------------------------

ANN = {"username": "ann", "password": b"pencil"}
BOB = {"username": "bob", "password": b"eraser"}


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("clean_start", [False, True])
@pytest.mark.parametrize("version", [4, 5])
async def test_nobody_takes_a_session_of_another_user(world, version, clean_start, killed):
    """Neither its messages nor its end."""
    lasting = {"session_expiry_interval": 100} if version == 5 else None
    ann = await world.connected("c", version, clean_start=False, properties=lasting, **ANN)
    await ann.subscribe("Dog/1", qos=1)
    if killed:
        world = await world.killed()
    bob = world.peer(version)
    connack = await bob.connect("c", clean_start=clean_start, **BOB)
    assert Reason.CLIENT_IDENTIFIER_NOT_VALID is connack.reason
    await world.put("Dog/1", b'{"name":"Rex"}')
    if killed:
        ann = world.peer(version)
        assert (await ann.connect("c", clean_start=False, **ANN)).session_present
        assert [b'{"name":"Rex"}'] == payloads([*ann.later, *await ann.hear()])
    else:
        assert [b'{"name":"Rex"}'] == payloads(await ann.hear())


async def test_a_user_goes_on_with_a_session_from_before_there_were_users():
    """It is that user's from then on."""
    world = Guarded(required=())
    lasting = {"session_expiry_interval": 100}
    (await world.connected("c", properties=lasting)).lose()
    ann = await world.connected("c", clean_start=False, properties=lasting, **ANN)
    ann.lose()
    connack = await world.peer().connect("c", clean_start=False)
    assert Reason.CLIENT_IDENTIFIER_NOT_VALID is connack.reason


async def test_l11_who_guesses_from_everywhere_is_slowed_down_and_the_user_is_not():
    """P3: whatever client ids it says; where ann signs in usually she goes on doing so."""
    world = Guarded(tries=LoginRateLimit(2, 300.0, lambda: 0.0))

    async def connect(number, password, name="ann"):
        peer = world.peer(5, peer=f"192.0.2.{number}")
        return await peer.connect(f"c{number}", username=name, password=password)

    assert Reason.SUCCESS is (await connect(1, b"pencil")).reason
    wrong = {(await connect(number, b"x")).reason for number in range(2, 22)}
    assert {Reason.BAD_USER_NAME_OR_PASSWORD} == wrong
    answers = [await connect(number, b"pencil") for number in (30, 1)]
    assert [Reason.SERVER_BUSY, Reason.SUCCESS] == [a.reason for a in answers]
    assert "from where it signs in usually" in answers[0].properties["reason_string"]
    assert Reason.SUCCESS is (await connect(32, b"eraser", "bob")).reason
    scram = Talk(world, peer="192.0.2.40")
    assert Reason.SERVER_BUSY is (await scram.begin()).reason
    usual = Talk(world, client_id="usual", peer="192.0.2.1")
    assert CONTINUE is (await usual.begin()).reason


@pytest.mark.slow
async def test_p3_guesses_with_a_users_client_id_do_not_keep_the_user_out():
    world = Guarded(tries=LoginRateLimit(2, 300.0, lambda: 0.0))
    for number in range(99):
        name = {"username": f"nobody {number}", "password": b"x"}
        connack = await world.peer(5).connect("meter", **name)
        assert Reason.BAD_USER_NAME_OR_PASSWORD is connack.reason
    assert Reason.SUCCESS is (await world.peer(5).connect("meter", **ANN)).reason


async def test_l11_guesses_by_scram_are_slowed_down_as_those_of_passwords():
    world = Guarded(tries=LoginRateLimit(2, 300.0, lambda: 0.0))
    for _ in range(2):
        talk = Talk(world, password="wrong")
        (refused,) = await talk.answer(await talk.begin())
        assert Reason.BAD_USER_NAME_OR_PASSWORD is refused.reason
    assert Reason.SERVER_BUSY is (await Talk(world).begin()).reason
    assert Reason.SERVER_BUSY is (await world.peer(5).connect("x", **ANN)).reason


async def test_p3_exchanges_that_were_only_begun_take_nobodys_tries():
    world = Guarded(tries=LoginRateLimit(2, 300.0, lambda: 0.0))
    for number in range(9):
        assert CONTINUE is (await Talk(world, client_id=f"idle{number}").begin()).reason
    await Talk(world).sign_in()
