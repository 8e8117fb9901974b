"""Webhooks of alarms: signed, repeated, in order, at least once, dead letters (V5)."""

import asyncio
import json
import socket
import threading
from base64 import b64decode, b64encode
from contextlib import ExitStack, suppress
from hashlib import sha256
from hmac import compare_digest, digest
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from alarm_server import AlarmServer, sensor
from pydantic import ValidationError

from build import ANN, refusal
from rowcast.core.errors import Code, Error
from rowcast.features.alarms import webhooks
from rowcast.features.alarms.feature import RecordAlarms
from rowcast.features.alarms.settings import AlarmSection
from rowcast.net import webhook_call
from rowcast.net.webhook_call import CallError, call, in_thread
from rowcast.net.webhook_signature import signed_headers

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HOOK = {"webhook": "http://ops.example/in", "webhook_secret": SECRET}


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """Pauses between calls, which are over at once."""
    made = []

    async def pause(self, attempts):
        made.append(attempts)
        await asyncio.sleep(0)

    monkeypatch.setattr(webhooks.Webhooks, "_pause", pause)
    return made


async def server(table=None, **settings):
    return await AlarmServer(table or sensor(0), **(HOOK | settings)).start()


def kinds(it):
    return [body["type"] for _, _, body in it.posted]


async def rows(it):
    return await it.server.kernel.resource("$SYS/alarm_deliveries/", ANN).get()


async def test_v5_each_change_is_posted_in_order_and_signed():
    it = await server()
    await it.write(85)
    await it.patch({"acknowledged": True})
    await it.write(70)
    await it.turn()
    assert ["alarm.raised", "alarm.acknowledged", "alarm.cleared"] == kinds(it)
    url, headers, body = it.posted[1]
    assert HOOK["webhook"] == url
    assert ("hot/Sensor/1", "ann") == (body["data"]["id"], body["data"]["user"])
    assert {"webhook-id", "webhook-timestamp", "webhook-signature"} == set(headers)
    assert ([], []) == (await rows(it), it.store.states("alarms/calls"))
    assert 3 == len({headers["webhook-id"] for _, headers, _ in it.posted})


def test_a_signature_is_that_of_standard_webhooks():
    """The example of the specification's reference libraries."""
    body = b'{"test": 2432232314}'
    headers = signed_headers(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" == headers["webhook-signature"]
    plain = signed_headers("word", "m", 1, b"x")["webhook-signature"].removeprefix("v1,")
    assert compare_digest(b64encode(digest(b"word", b"m.1.x", sha256)).decode(), plain)
    assert 32 == len(b64decode(plain))
    assert "webhook-signature" not in signed_headers("", "m", 1, b"")


async def test_a_failed_call_is_repeated_then_a_dead_letter_then_sent_again(pauses):
    it = await server()
    it.refusing = True
    await it.write(85)
    for _ in range(6):
        await it.turn()
    assert ([1, 2, 3, 4, 5, 6, 7], 8) == (pauses, len(it.posted))
    (row,) = await rows(it)
    of_them = it.server.kernel.registry.entry("$SYS/alarm_deliveries")
    assert of_them.resource.members == tuple(row)
    assert ("dead", 8, "it answered 500", "default") == tuple(
        row[name] for name in ("state", "attempts", "problem", "webhook")
    )
    assert "ops.example" not in json.dumps(row)
    await it.restart()
    assert ["dead"] == [row["state"] for row in await rows(it)]
    it.refusing = False
    resource = it.server.kernel.resource(f"$SYS/alarm_deliveries/{row['id']}", ANN)
    assert Code.UNPROCESSABLE is await refusal(resource.patch({"state": "sent"}))
    await resource.patch({"state": "waiting"})
    await it.turn()
    assert (9, []) == (len(it.posted), await rows(it))
    assert Code.NOT_FOUND is await refusal(resource.patch({"state": "waiting"}))
    assert Code.NOT_FOUND is await refusal(resource.delete())


async def test_what_was_not_taken_is_posted_after_a_kill_and_what_was_is_not():
    it = await server()
    await it.write(85)
    await it.turn()
    it.refusing = True
    await it.write(70)
    for _ in range(20):  # it is stored, and the first call may have failed
        await asyncio.sleep(0)
    it.refusing = False
    await it.restart()
    await it.turn()
    assert "alarm.raised" == kinds(it)[0]
    assert "alarm.cleared" == kinds(it)[-1]
    assert 1 == kinds(it).count("alarm.raised")


async def test_a_dead_letter_is_discarded_and_the_oldest_makes_room():
    it = await server()
    it.feature.webhooks._dead_max = 2
    it.feature.webhooks._waiting_max = 0
    for number in range(3):
        await it.write(85, f"Sensor/{number}")
    await it.turn()
    found = await rows(it)
    assert (["hot/Sensor/1", "hot/Sensor/2"], 1, []) == (
        [row["body"]["data"]["id"] for row in found], it.feature.webhooks.dropped, it.posted
    )  # fmt: skip
    await it.server.kernel.resource(f"$SYS/alarm_deliveries/{found[0]['id']}", ANN).delete()
    assert (1, 1) == (len(await rows(it)), len(it.store.states("alarms/calls")))


async def test_a_webhook_that_takes_nothing_leaves_room_for_others():
    """Also one whose notifications still wait when the settings have it no more."""
    day, night = ({"name": it, "url": f"https://{it}.example/"} for it in ("day", "night"))
    it = await server(sensor(0, webhook="night"), webhooks=(night,))

    async def hang(*_):
        await asyncio.Event().wait()

    it.feature.webhooks._post = hang
    for number in range(3):
        await it.write(85, f"Sensor/{number}")
    await it.turn()
    later = AlarmServer(sensor(0, webhook="day"), store=it.store, webhooks=(day,))
    later.time += 1
    it = await later.start()
    it.feature.webhooks._waiting_max = 3
    await it.write(85, "Sensor/4")
    await it.turn()
    assert (1, 0, 3) == (len(it.posted), it.feature.webhooks.dead, it.feature.webhooks.waiting)


async def test_an_alarm_names_its_webhook_and_an_unknown_one_stops_the_start():
    other = ({"name": "night", "url": "https://night.example/"},)
    it = await server(sensor(0, webhook="night"), webhooks=other)
    await it.write(85)
    await it.turn()
    assert ["https://night.example/"] == [url for url, _, _ in it.posted]
    with pytest.raises(Error, match=r'webhook "nigth", and alarms\.webhooks has none.*night'):
        RecordAlarms((sensor(0, webhook="nigth"),), AlarmSection(webhooks=other))


@pytest.mark.parametrize(
    "settings",
    [{"webhook": "ops"}, {"webhook": "file:///etc"}, {"webhook": "http://a:b@ops.example/"},
     {"webhook": "http://ops.example:x/"}, {"webhook_secret": "whsec_???"},
     {"webhook": "http://ops.example/a b"}, {"webhook": "http://ops.example/?x=\u00e9"}],
)  # fmt: skip
def test_a_setting_that_cannot_be_meant_is_refused(settings):
    with pytest.raises(ValidationError):
        AlarmSection(**settings)


# -- the call itself -------------------------------------------------------------------------------


class Receiver(BaseHTTPRequestHandler):
    """Answers as the path says, and remembers."""

    taken: list = []  # noqa: RUF012

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.taken.append((self.path, dict(self.headers), body))
        code = int(self.path.strip("/") or 200)
        self.send_response(code)
        if code == 302:
            self.send_header("location", "/200")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def receiver():
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    Receiver.taken.clear()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_call_posts_json_off_the_loop_and_follows_no_redirect(receiver):
    await in_thread(lambda: call(f"{receiver}/204", {"webhook-id": "m"}, b"{}"))
    path, headers, body = Receiver.taken[0]
    assert ("/204", b"{}", "m", "application/json") == (
        path, body, headers["webhook-id"], headers["content-type"]
    )  # fmt: skip
    for code in (302, 500):
        with pytest.raises(CallError, match=f"it answered {code}"):
            await in_thread(lambda code=code: call(f"{receiver}/{code}", {}, b""))
    assert 3 == len(Receiver.taken)


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fe80::1]", "0.0.0.0", "[::ffff:169.254.169.254]"]
)
async def test_an_address_of_this_link_alone_is_not_called(host):
    with pytest.raises(CallError, match="is not called"):
        await in_thread(lambda: call("http" + f"://{host}/latest/meta-data", {}, b""))


async def test_what_cannot_be_called_is_said_without_the_url(monkeypatch):
    def fail(*_):
        raise RuntimeError("http://secret.example")

    with pytest.raises(CallError, match="ConnectionRefusedError"):
        call("http://127.0.0.1:1/secret", {}, b"", 1)
    monkeypatch.setattr(webhook_call, "urlsplit", fail)
    with pytest.raises(CallError) as caught:
        await in_thread(lambda: call("http://secret.example", {}, b""))
    assert "secret" not in str(caught.value)


@pytest.fixture
def raw():
    """Return what serves one connection on a thread with a function of its socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as ends:
        listener.settimeout(10)  # where the call never comes

        def serve(answer):
            def work():
                with suppress(TimeoutError), listener.accept()[0] as peer:
                    peer.recv(10_000)
                    answer(peer)

            thread = threading.Thread(target=work)
            thread.start()
            ends.callback(thread.join)
            return f"http://127.0.0.1:{listener.getsockname()[1]}/in?token=secret"

        yield serve


def test_nothing_of_an_answer_or_of_the_url_is_shown(raw):
    """V5, G24: rows and logs have the problem; an address may lead to what speaks no HTTP."""
    url = raw(lambda peer: peer.sendall(b"SSH-2.0-inner\r\n"))
    with pytest.raises(CallError) as caught:
        call(url, {}, b"{}")
    assert "BadStatusLine" == str(caught.value)
    with pytest.raises(CallError) as caught:
        call(raw(lambda peer: None) + "&a b", {}, b"{}")
    assert "InvalidURL" == str(caught.value)


def test_an_answer_without_end_is_cut(raw):
    """V5, G24: each byte comes in time, and the whole does not."""

    def dribble(peer):
        with suppress(OSError):
            peer.sendall(b"HTTP/1.1 200 OK\r\nx: ")
            while peer.recv(1):  # until it is cut
                pass

    with pytest.raises(CallError, match=r"took longer than 0\.05 s"):
        call(raw(dribble), {}, b"{}", whole_seconds=0.05)
