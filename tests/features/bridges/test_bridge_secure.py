"""Bridges to brokers that want to know who comes, or cannot be reached (H6, H20, H31)."""

import socket
from dataclasses import replace

import pytest
from bridged import ANN, server, to

from free_ports import free_port
from remote_broker import NEEDS_MOSQUITTO, RemoteBroker
from securing import Authority, ServerFiles

pytestmark = NEEDS_MOSQUITTO


@pytest.fixture
def room(tmp_path):
    for name in ("here", "there", "client"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def authority(room):
    return Authority(room)


def secured(room, authority, more=""):
    files = ServerFiles(room / "there", authority.issue("127.0.0.1"))
    text = f"cafile {authority.file}\ncertfile {files.certificate}\nkeyfile {files.key}\n"
    return RemoteBroker(room / "there", text + more)


async def test_tls(room, authority):
    """H31: with an authority of one's own."""
    with secured(room, authority) as broker:
        settings = to(broker, "u/#", certificate_authority=authority.file)
        async with server(room / "here", settings) as world:
            await world.idle()
            await world.say("u/1", b"x")
            await world.until(lambda: world.bridge.sent == 1)


async def test_both_show_certificates(room, authority):
    """H31: the broker asks for one too."""
    shown = ServerFiles(room / "client", authority.issue("edge-7"))
    with secured(room, authority, "require_certificate true\n") as broker:
        settings = to(
            broker, "u/#", certificate_authority=authority.file,
            certificate=shown.certificate, private_key=shown.key,
        )  # fmt: skip
        async with server(room / "here", settings) as world:
            await world.idle()
            await world.say("u/1", b"x")
            await world.until(lambda: world.bridge.sent == 1)


async def goes_on(world, words):
    """Assert that the row tells why it is not connected, and that writes are taken."""
    await world.until(lambda: world.bridge.last_error)
    receipt = await world.say("u/1", b"x")
    row = await world.kernel.resource("$SYS/brokers/b", ANN).get()
    assert (False, "cold", 1) == (row["connected"], row["delivery_mode"], row["outbox_pending"])
    assert words in row["last_error"].lower()
    assert receipt.event.seq


async def test_who_is_not_trusted_gets_nothing(room, authority):
    """H31: a broker whose certificate another authority signed."""
    other = Authority(room, "other")
    with secured(room, authority) as broker:
        settings = to(broker, "u/#", certificate_authority=other.file)
        async with server(room / "here", settings) as world:
            await goes_on(world, "; set certificate_authority to the file of the authority")


async def test_tls_where_there_is_none(room, authority):
    """H20, H31."""
    with RemoteBroker(room / "there") as broker:
        settings = to(broker, "u/#", certificate_authority=authority.file)
        async with server(room / "here", settings) as world:
            await goes_on(world, "; a port without tls needs tls: false")


async def test_who_shows_no_certificate_is_refused(room, authority):
    """H6, H31."""
    with secured(room, authority, "require_certificate true\n") as broker:
        settings = to(broker, "u/#", certificate_authority=authority.file)
        async with server(room / "here", settings) as world:
            await goes_on(world, "broker")


async def test_a_wrong_password_is_told_and_not_shown(room):
    """H6, H20, H31."""
    (room / "passwords").write_text("")
    more = f"allow_anonymous false\npassword_file {room}/passwords\n"
    with RemoteBroker(room / "there", more) as broker:
        settings = to(broker, "u/#", username="ann", password="secret")
        async with server(room / "here", settings) as world:
            await goes_on(world, "authori")
            assert "secret" not in world.bridge.last_error


async def test_nobody_listens(room):
    """H6, H20, H38."""
    nobody = type("Nobody", (), {"port": free_port()})
    async with server(room / "here", to(nobody, "u/#")) as world:
        await goes_on(world, "connect")


def impatient(plan):
    """Return a plan whose broker has little time to answer."""
    return replace(plan, remote=replace(plan.remote, connect_seconds=0.1))


async def test_somebody_listens_and_says_nothing(room):
    """H6, H20."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = type("Silent", (), {"port": silent.getsockname()[1]})
        async with server(room / "here", to(place, "u/#"), change=impatient) as world:
            await goes_on(world, "does not answer; a port for tls needs tls: true")


async def test_what_was_refused_before_a_change_is_known_to_be_old(room):
    """H37: in an outage too, when nothing is sent that would be read again."""
    (room / "rules").write_text("topic read #\n")
    with RemoteBroker(room / "there", f"acl_file {room}/rules\n") as broker:
        async with server(room / "here") as world:
            await world.gateway.change("b", to(broker, "u/#"))
            await world.say("u/1", b"x")
            await world.until(lambda: world.bridge.outbox.retrying)
            await world.gateway.change("b", to(broker, "u/#") | {"port": free_port()})
            await world.until(lambda: world.gateway.lag_seconds(world.bridge) > 0)
