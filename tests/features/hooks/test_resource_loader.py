"""The user's resources are found, or the start fails with the file and line (A12)."""

from pathlib import Path

import pytest

from rowcast import get_table_name_for_topic, server
from rowcast.core.callers import ALL, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, PUT, Event
from rowcast.features.hooks.hooks import Hooks
from rowcast.program.resource_loader import check_resources, load_resources

GOOD = """
from rowcast import Resource
from rowcast.routes.resource import Resource as Base

PLAIN = 5

class Dog(Resource):
    pass

class Kennel(Base):
    path = "/places/kennel/"

class Root(Resource):
    path = ""

class _Hidden(Resource):
    pass
"""


def load(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return load_resources(folder)


def test_f18_resources_have_both_names_of_the_helper():
    """F5, F18: getTableNameForTopic, as Python spells it."""
    assert "mqtt_home" == get_table_name_for_topic("home/temperature")


def test_no_folder_has_no_resources(tmp_path):
    assert [] == load_resources(tmp_path / "missing")


@pytest.mark.parametrize("use", [load_resources, check_resources])
def test_a_file_is_no_folder(tmp_path, use):
    """F18: it would have none, silently."""
    file = tmp_path / "dogs.py"
    file.write_text("")
    with pytest.raises(Error, match=f"dogs.py is a file; .*: name {tmp_path}$"):
        use(file)


def test_every_resource_of_every_file_by_name_or_path(tmp_path):
    found = load(tmp_path, b_second="from rowcast import Resource\nclass Cat(Resource): ...",
                 a_first=GOOD, _skipped="1 / 0")  # fmt: skip
    assert ["Dog", "places/kennel", "", "Cat"] == [path for path, _ in found]
    assert ["Dog", "Kennel", "Root", "Cat"] == [item.__name__ for _, item in found]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("x = 1\ndef broken(:\n", 2, "SyntaxError"),
        ("x = 1\n\ny = x / 0\n", 3, "division by zero"),
        ("import nothing_of_that_name\n", 1, "nothing_of_that_name"),
        ("class E(SyntaxError): pass\nraise E\n", 1, "E"),
    ],
)
def test_a_mistake_stops_the_start_with_its_line(tmp_path, text, line, words):
    with pytest.raises(Error, match=words) as raised:
        load(tmp_path, broken=text)
    assert Code.INVALID == raised.value.code
    assert f"broken.py:{line}:" in raised.value.message


def test_a_path_must_be_a_topic(tmp_path):
    text = "from rowcast import Resource\nclass Bad(Resource):\n    path = 'a/+'\n"
    with pytest.raises(Error, match="the path of Bad is no topic"):
        load(tmp_path, bad=text)


def test_what_python_cannot_import_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.spec_from_file_location", lambda *_: None)
    with pytest.raises(Error, match="cannot be imported"):
        load(tmp_path, fine="x = 1")


HOOKED = """
from rowcast import Hook, hooks, server

@hooks.add
class First(Hook):
    pass

class Second(Hook):
    id = "second"

hooks.add(Second(), {"depth": 3})

@server.mqtt.events.on("connected")
def greet(session, socket):
    pass

server.mqtt.events.on("disconnected", greet)
"""


def test_g17_hooks_and_listeners_belong_to_the_server_that_loads(tmp_path):
    (tmp_path / "hooked.py").write_text(HOOKED)
    one, two = Hooks(), Hooks()
    load_resources(tmp_path, one)
    assert [] == two.figures()
    load_resources(tmp_path, two)
    names = ["First", "second", "connected: greet", "disconnected: greet"]
    assert names == [item.id for item in one.figures()] == [item.id for item in two.figures()]


def test_g17_outside_a_loading_there_is_no_server_to_add_to():
    with pytest.raises(Error, match="at the top of a file in resources/"):
        server.mqtt.events.on("connected", print)


def test_g17_a_mistaken_event_stops_the_start_with_its_line(tmp_path):
    text = "from rowcast import server\nserver.mqtt.events.on('conected', print)\n"
    with pytest.raises(Error, match=r"bad.py:2: there is no event 'conected'"):
        load(tmp_path, bad=text)


async def test_the_manuals_hooks_do_what_it_says(tmp_path, capsys):
    manual = (Path(__file__).parents[3] / "docs/python.md").read_text()
    section = manual.partition("\n## Hooks\n")[2]
    (tmp_path / "sample.py").write_text(section.partition("```python\n")[2].partition("```")[0])
    hooks = Hooks()
    load_resources(tmp_path, hooks)
    cat, guest = Caller("cat", ALL, "mqtt", "c", "10.0.0.1"), Caller("guest", ALL)
    with pytest.raises(Error, match="cats do not write about dogs"):
        hooks.publish(cat, Event("Dog/1", PUT, b"{}"))
    assert hooks.publish(guest, Event("Chat/1", MESSAGE, b"")) is None
    assert b'"something happened"' == hooks.deliver(guest, Event("Chat/1", MESSAGE, b"x")).payload
    hooks.connected(cat)
    await hooks.stop()
    assert "c 10.0.0.1 mqtt\n" == capsys.readouterr().out
