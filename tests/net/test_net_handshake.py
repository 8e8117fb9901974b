"""TLS handshakes over real connections, on both kinds of loop (D2, D4, D5, D7)."""

import asyncio
import logging
import ssl
from contextlib import asynccontextmanager, suppress

import pytest

from rowcast.net.handshake import Handshakes
from rowcast.net.identity import ClientCheck, Files, server_context
from rowcast.net.listener import Listener
from securing import Authority, RawTls, ServerFiles, shake

PLAIN = b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x01c"


class Echo(asyncio.Protocol):
    """Says what it hears."""

    def __init__(self, port):
        self.port = port

    def connection_made(self, transport):
        self.transport = transport
        self.port.made.append(self)

    def data_received(self, data):
        self.port.heard.append(data)
        self.transport.write(data)

    def connection_lost(self, exc):
        self.port.made.remove(self)


class Port:
    """A port with TLS, and what came of its connections."""

    def __init__(self, folder, required=None, **options):
        self.authority = Authority(folder)
        leaf = self.authority.issue("localhost")
        files = ServerFiles(folder, leaf)
        check = None if required is None else ClientCheck(self.authority.file, required)
        self.context = server_context(Files(files.certificate, files.key), check, ("echo",))
        self.made, self.heard = [], []
        self.handshakes = Handshakes(
            "the port", lambda: self.context, lambda: Echo(self), **options
        )
        self.listener = Listener(self.handshakes.protocol, "127.0.0.1", 0)

    @property
    def counts(self):
        shaking = self.handshakes
        return shaking.done, shaking.failed, shaking.refused

    async def plain(self):
        """Open a connection without TLS."""
        return await asyncio.open_connection("127.0.0.1", self.listener.port)

    async def secure(self, context=None, **options):
        """Open a connection with TLS."""
        return await asyncio.open_connection(
            "127.0.0.1",
            self.listener.port,
            ssl=context or self.authority.client(),
            server_hostname="localhost",
            **options,
        )


@asynccontextmanager
async def opened(folder, **options):
    port = Port(folder, **options)
    await port.listener.start()
    try:
        yield port
    finally:
        port.listener.stop()
        await port.handshakes.stop()
        await until(lambda: not port.made)


async def until(condition):
    """Wait, turn by turn, until a condition holds."""
    while not condition():  # noqa: ASYNC110 - nothing tells it
        await asyncio.sleep(0)


async def gone(writer):
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


VERSIONS = {"TLS 1.2": ssl.TLSVersion.TLSv1_2, "TLS 1.3": ssl.TLSVersion.TLSv1_3}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_said_arrives(run, tmp_path, version):
    async def scenario():
        async with opened(tmp_path) as port:
            context = port.authority.client()
            context.minimum_version = context.maximum_version = VERSIONS[version]
            context.set_alpn_protocols(["other", "echo"])
            reader, writer = await port.secure(context)
            writer.write(b"hello" * 100_000)
            assert b"hello" * 100_000 == await reader.readexactly(500_000)
            assert "echo" == writer.get_extra_info("ssl_object").selected_alpn_protocol()
            assert (1, 0, 0) == port.counts
            await gone(writer)

    run(scenario())


@pytest.mark.parametrize("version", VERSIONS)
def test_byte_by_byte(run, tmp_path, version):
    """D4: the handshake and what follows, each byte of TLS in a packet of its own."""

    async def scenario():
        async with opened(tmp_path) as port:
            context = port.authority.client()
            context.minimum_version = context.maximum_version = VERSIONS[version]
            raw = RawTls(context)
            reader, writer = await port.plain()
            said = raw.begin()
            while said is not None:
                await drip(writer, said)
                said = raw.answer(await reader.read(65_536))
            await drip(writer, raw.seal(b"hello"))
            back = b""
            while len(back) < 5:
                back += raw.open(await reader.read(65_536))
            assert b"hello" == back
            await gone(writer)

    run(scenario())


async def drip(writer, data):
    """Write byte after byte, the other side reading in between."""
    for byte in data:
        writer.write(bytes((byte,)))
        await asyncio.sleep(0)


def test_what_comes_with_the_end_of_the_handshake_is_not_lost(run, tmp_path):
    """A client may send CONNECT in the same packet."""

    async def scenario():
        async with opened(tmp_path) as port:
            reader, writer = await port.plain()
            raw = RawTls(port.authority.client())
            await shake(reader, writer, raw)
            writer.write(raw.seal(b"at once"))
            back = b""
            while not back:
                back = raw.open(await reader.read(65_536))
            assert (b"at once", [b"at once"]) == (back, port.heard)
            await gone(writer)

    run(scenario())


def test_who_goes_right_after_the_handshake_leaves_nothing(run, tmp_path):
    async def scenario():
        async with opened(tmp_path) as port:
            for _ in range(20):
                reader, writer = await port.plain()
                raw = RawTls(port.authority.client())
                await shake(reader, writer, raw)
                writer.write(raw.seal(b"x"))
                writer.transport.abort()
            await until(lambda: sum(port.counts) == 20 and not port.made)

    run(scenario())


def test_what_waits_below_tls_is_counted(run, tmp_path):
    """D22: a slow peer makes progress that a door can see, so that it is not taken for dead."""

    async def scenario():
        async with opened(tmp_path) as port:
            reader, writer = await port.secure()
            await until(lambda: port.made)
            (echo,) = port.made
            count = 20_000_000
            echo.transport.write(bytes(count))
            first = echo.transport.get_write_buffer_size()
            assert first > 10_000_000
            await reader.readexactly(count // 2)
            await until(lambda: echo.transport.get_write_buffer_size() < first)
            await reader.readexactly(count // 2)
            assert 0 == echo.transport.get_write_buffer_size()
            await gone(writer)

    run(scenario())


# -- handshakes that fail --------------------------------------------------------------------------


def test_plain_mqtt_is_told_in_one_line(run, tmp_path, caplog):
    caplog.set_level(logging.INFO)

    async def scenario():
        async with opened(tmp_path) as port:
            reader, writer = await port.plain()
            writer.write(PLAIN)
            await reader.read()
            assert (0, 1, 0) == port.counts
            await gone(writer)

    run(scenario())
    said = "the port: the TLS handshake with 127.0.0.1 failed: it does not speak TLS"
    assert [said] == [record.getMessage()[: len(said)] for record in caplog.records]


def test_a_scanner_does_not_fill_the_log(run, tmp_path, caplog):
    caplog.set_level(logging.INFO)

    async def scenario():
        async with opened(tmp_path) as port:
            for data in [PLAIN, b"GET / HTTP/1.1\r\n\r\n", b""] * 20:
                _, writer = await port.plain()
                writer.write(data)
                await gone(writer)
            await until(lambda: port.handshakes.failed == 60)

    run(scenario())
    assert 1 == len(caplog.records)


def test_later_the_log_tells_how_many_there_were(run, tmp_path, caplog):
    caplog.set_level(logging.INFO)

    async def scenario():
        async with opened(tmp_path) as port:
            for why in ("why", "why", "late", "old", "why", "late"):
                port.handshakes.fail("192.0.2.1", why)
            for why in ("why", "why"):
                port.handshakes._log_after = 0.0  # a minute later
                port.handshakes.fail("192.0.2.1", why)

    run(scenario())
    _, second, third = (record.getMessage() for record in caplog.records)
    assert second.endswith("failed: why; 2 more like it; 3 others, most of them: late (2)")
    assert third.endswith("failed: why")


def test_old_versions_are_refused(run, tmp_path, caplog):
    caplog.set_level(logging.INFO)

    async def scenario():
        async with opened(tmp_path) as port:
            context = port.authority.client()
            context.set_ciphers("ALL:@SECLEVEL=0")
            with pytest.warns(DeprecationWarning, match="TLSv1_1"):
                context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
            with pytest.raises(OSError):
                await port.secure(context)
            await until(lambda: port.counts == (0, 1, 0))

    run(scenario())
    assert "it offers only versions before TLS 1.2" in caplog.text


def test_a_client_that_does_not_trust_us(run, tmp_path, caplog):
    caplog.set_level(logging.INFO)

    async def scenario():
        async with opened(tmp_path) as port:
            reader, writer = await port.plain()
            raw = RawTls(ssl.create_default_context())
            with pytest.raises(ssl.SSLCertVerificationError):
                await shake(reader, writer, raw)
            writer.write(raw.alert())
            await gone(writer)
            await until(lambda: port.counts == (0, 1, 0))

    run(scenario())
    assert "it does not trust our certificate" in caplog.text


def test_who_says_nothing_is_cut_off(run, tmp_path, caplog):
    """D7, Bad input: half-open handshakes do not stay."""
    caplog.set_level(logging.INFO)

    async def scenario():
        async with opened(tmp_path, seconds_max=0.01) as port:
            reader, writer = await port.plain()
            assert b"" == await reader.read()
            assert (0, 1, 0) == port.counts
            await gone(writer)

    run(scenario())
    assert "it took too long" in caplog.text


def test_a_hundred_aborted_handshakes_leave_nothing(run, tmp_path):
    """C26, D5: whatever part of the first flight came."""

    async def scenario():
        async with opened(tmp_path) as port:
            for number in range(100):
                _, writer = await port.plain()
                hello = RawTls(port.authority.client()).begin()
                writer.write(hello[: len(hello) * number // 99])
                await asyncio.sleep(0)
                if number % 2:
                    writer.transport.abort()
                else:
                    await gone(writer)
            await until(lambda: port.handshakes.failed == 100)
            await until(lambda: len(asyncio.all_tasks()) == 1)
            assert not port.made

    run(scenario())


def test_too_many_at_a_time_are_closed_at_once(run, tmp_path):
    async def scenario():
        async with opened(tmp_path, under_way_max=1) as port:
            _, first = await port.plain()
            reader, second = await port.plain()
            with suppress(ConnectionError):
                assert b"" == await reader.read()
            assert (0, 0, 1) == port.counts
            await gone(first)
            await gone(second)

    run(scenario())


def test_who_is_silent_keeps_out_nobody_else(run, tmp_path):
    async def scenario():
        async with opened(tmp_path, under_way_max=3) as port:
            silent = [await port.plain() for _ in range(3)]
            await until(lambda: len(port.handshakes.under_way) == 3)
            reader, writer = await port.secure(local_addr=("127.0.0.2", 0))
            writer.write(b"heard")
            assert b"heard" == await reader.readexactly(5)
            with suppress(ConnectionError):
                assert b"" == await silent[0][0].read()
            assert (1, 0, 1) == port.counts
            assert len(port.handshakes.under_way) == 2
            for _, one in (*silent, (reader, writer)):
                await gone(one)
            await until(lambda: not port.handshakes.under_way)

    run(scenario())


def test_stopping_ends_handshakes_under_way(run, tmp_path):
    """D5."""

    async def scenario():
        async with opened(tmp_path) as port:
            peers = [await port.plain() for _ in range(3)]
            await until(lambda: len(port.handshakes.under_way) == 3)
            port.listener.stop()
            await port.handshakes.stop()
            for reader, writer in peers:
                with suppress(ConnectionError):
                    assert b"" == await reader.read()
                await gone(writer)
            with pytest.raises(OSError):
                await port.plain()

    run(scenario())


def test_a_protocol_that_fails_is_logged_and_closed(run, tmp_path, caplog):
    """D8."""

    async def scenario():
        async with opened(tmp_path) as port:
            port.handshakes.make = lambda: 1 / 0
            reader, writer = await port.secure()
            with suppress(OSError):
                assert b"" == await reader.read()
            await gone(writer)

    run(scenario())
    assert "the port: the connection of 127.0.0.1 failed" in caplog.text


# -- certificates of clients -----------------------------------------------------------------------


def shown(port):
    """Return the names of the subject that the last connection showed."""
    found = port.made[-1].transport.get_extra_info("peercert") or {}
    return [value for part in found.get("subject", ()) for _, value in part]


@pytest.mark.parametrize("required", [True, False])
def test_a_client_shows_its_certificate(run, tmp_path, required):
    """L3."""

    async def scenario():
        async with opened(tmp_path, required=required) as port:
            context = port.authority.client(port.authority.issue("x", common_name="ann"))
            _, writer = await port.secure(context)
            await until(lambda: port.made)
            assert "ann" in shown(port)
            await gone(writer)

    run(scenario())


def test_it_is_known_again_when_the_session_is_resumed(run, tmp_path):
    """L3: TLS 1.2 by its session, which carries the certificate."""

    async def scenario():
        async with opened(tmp_path, required=True) as port:
            context = port.authority.client(port.authority.issue("x", common_name="ann"))
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            session = None
            for resumed in (False, True):
                reader, writer = await port.plain()
                raw = RawTls(context)
                if session is not None:
                    raw.tls.session = session
                await shake(reader, writer, raw)
                writer.write(raw.seal(b"x"))
                await until(lambda: port.made)
                assert (resumed, True) == (raw.tls.session_reused, "ann" in shown(port))
                session = raw.tls.session
                writer.close()
                await until(lambda: not port.made)

    run(scenario())


REFUSED = {
    "none": lambda port, other: None,
    "of another authority": lambda port, other: other.issue("x", common_name="ann"),
    "expired": lambda port, other: port.authority.expired("x", common_name="ann"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_client_whose_certificate_is_not_accepted(run, tmp_path, kind, caplog):
    """L3, Bad input."""
    caplog.set_level(logging.INFO)

    async def scenario():
        async with opened(tmp_path, required=True) as port:
            certificate = REFUSED[kind](port, Authority(tmp_path, "other"))
            reader, writer = await port.secure(port.authority.client(certificate))
            with pytest.raises(OSError):  # TLS 1.3 tells it with the first read
                await reader.read()
                raise ConnectionResetError
            assert ((0, 1, 0), []) == (port.counts, port.made)
            await gone(writer)

    run(scenario())
    why = "showed no certificate" if kind == "none" else "its certificate is refused"
    assert why in caplog.text


def test_a_certificate_that_is_not_required_may_be_missing_but_not_wrong(run, tmp_path):
    async def scenario():
        async with opened(tmp_path, required=False) as port:
            _, writer = await port.secure()
            await until(lambda: port.made)
            assert [] == shown(port)
            await gone(writer)
            wrong = Authority(tmp_path, "other").issue("x")
            reader, writer = await port.secure(port.authority.client(wrong))
            with suppress(OSError):
                await reader.read()
            await until(lambda: port.counts == (1, 1, 0))
            await gone(writer)

    run(scenario())
