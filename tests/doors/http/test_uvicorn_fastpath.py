"""The fast path checks itself against the installed uvicorn, and gives way to plain ASGI."""

import importlib.util
import inspect
import logging
import re
import sys
import types

import pytest
from test_http_direct import CLOSE, PLAIN, get, serving
from uvicorn.protocols.http import httptools_impl

from asgi import asgi
from rowcast.doors.http import request_heads, uvicorn_fastpath
from rowcast.doors.http.rest import representations, writes
from rowcast.doors.http.streams.channels import EventChannel


def test_the_installed_uvicorn_passes_the_self_check():
    """Fails with a release of uvicorn that the fast path has to be adapted to."""
    assert ("", "") == (uvicorn_fastpath.HEAD_PROBLEM, uvicorn_fastpath.PROBLEM)
    assert uvicorn_fastpath.RequestHeadLimits is uvicorn_fastpath.HTTP_PROTOCOL


def stand_in(**renamed):
    """A uvicorn that works, but calls some of its attributes differently."""
    text = inspect.getsource(httptools_impl)
    for old, new in renamed.items():
        text, count = re.subn(rf"(\.|def ){old}\b", rf"\g<1>{new}", text)
        assert count > 1
    module = types.ModuleType("stand_in")
    exec(compile(text, "stand_in", "exec"), module.__dict__)  # our own lock's package
    return module


def fastpath_over(monkeypatch, module):
    """Return the fast path as it is imported where that uvicorn is installed."""
    for name in ("HttpToolsProtocol", "RequestResponseCycle"):
        monkeypatch.setattr(httptools_impl, name, getattr(module, name))
    monkeypatch.setitem(sys.modules, request_heads.__name__, loaded_again(request_heads))
    return loaded_again(uvicorn_fastpath)


def loaded_again(module):
    """Return a module as it is when it is imported now."""
    spec = importlib.util.spec_from_file_location("fastpath_over", module.__file__)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize(
    ("renamed", "problem"),
    [
        ({"waiting_for_100_continue": "must_continue"}, "answers are sent not at all"),
        ({"flow": "control"}, "limited request heads are answered not at all"),
        ({"pipeline": "queue"}, "limited request heads are answered not at all"),
        (
            {"_unsupported_upgrade_warning": "_unsupported"},
            "bodies behind an offer of HTTP/2 are read not",
        ),
    ],
)
async def test_a_uvicorn_that_lacks_an_attribute_is_served_by_plain_asgi(
    tmp_path, monkeypatch, caplog, renamed, problem
):
    over = fastpath_over(monkeypatch, stand_in(**renamed))
    with caplog.at_level(logging.WARNING):
        over.log_problem()
    assert problem in over.PROBLEM
    (told,) = (it.getMessage() for it in caplog.records if it.name.startswith("rowcast"))
    assert over.PROBLEM in told

    sent = []

    def spy(send, answer):
        sent.append(over.write_whole(send, answer))
        return sent[-1]

    monkeypatch.setattr(representations, "write_whole", spy)
    monkeypatch.setattr(writes, "write_whole", spy)
    async with asgi() as rest:
        await rest.put("/Dog/1", b'{"name":"Rex"}')
        async with serving(rest.edge, protocol=over.HTTP_PROTOCOL, **PLAIN) as ask:
            answer = await ask(get(b"/Dog/1") + CLOSE)
    assert 2 == answer.count(b"HTTP/1.1 200 OK\r\n")
    assert {False} == set(sent)


def test_a_uvicorn_that_behaves_otherwise_is_noticed(monkeypatch):
    """All attributes are there, and the same answer leaves another state behind."""

    class Otherwise(httptools_impl.RequestResponseCycle):
        async def send(self, message):
            await super().send(message)
            self.more_body = message["type"]

    module = types.SimpleNamespace(
        HttpToolsProtocol=httptools_impl.HttpToolsProtocol, RequestResponseCycle=Otherwise
    )
    over = fastpath_over(monkeypatch, module)
    assert "answers are sent not as uvicorn itself" == over.PROBLEM
    assert EventChannel is type(over.event_channel_of(print))
