"""``rowcast init``: the files that a new project begins with."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from asgi import asgi
from house import ROOT
from rowcast.core.errors import Error
from rowcast.program.cli import command
from rowcast.program.commands.init import STARTERS
from rowcast.program.config import load_config
from rowcast.program.resource_loader import load_resources
from rowcast.schema import load_schema, parse_schema


def init(*arguments):
    return CliRunner().invoke(command, ("init", *map(str, arguments)), catch_exceptions=True)


def files(folder):
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in found}


def attributes(folder):
    """Return what the tables of a schema declare, but for descriptions."""
    return {
        (table.name, item.name): replace(item, description="")
        for table in load_schema(folder / "schema.graphql").tables
        for item in table.attributes
    }


def test_it_writes_a_schema_an_example_and_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = init()
    assert 0 == result.exit_code
    assert set(STARTERS) == set(files(tmp_path))
    assert 3 == result.output.count("written")


def test_it_makes_the_directory_and_says_what_to_do_next(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = init("new/project").output
    assert set(STARTERS) == set(files(tmp_path / "new/project"))
    following = [line.split("  ")[1] for line in said.partition("Next:\n")[2].splitlines()]
    assert ["cd new/project", "rowcast serve"] == following[:2]


def test_in_its_own_directory_nobody_is_told_to_change_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "  cd " not in init().output


@pytest.mark.parametrize("name", ["project", "project/resources"])
def test_a_file_in_the_place_of_a_directory_is_told(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    said = str(init(tmp_path / "project").exception)
    assert f"{tmp_path / name} is a file, and a directory is needed there" in said
    assert "mine" == (tmp_path / name).read_text()


@pytest.mark.parametrize("name", STARTERS)
def test_it_overwrites_nothing(tmp_path, name):
    mine = tmp_path / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    result = init(tmp_path)
    assert (0, "mine") == (result.exit_code, mine.read_text())
    assert (1, 2) == (result.output.count("kept, exists"), result.output.count("written"))
    assert set(STARTERS) == set(files(tmp_path))


def test_a_second_time_changes_nothing(tmp_path):
    init(tmp_path)
    before = files(tmp_path)
    result = init(tmp_path)
    assert (before, 3) == (files(tmp_path), result.output.count("kept, exists"))


@pytest.mark.parametrize("place", ["file", "file/below", "s3://bucket/project"])
def test_a_place_that_is_no_directory_is_refused(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    result = init(place)
    assert (1, True) == (result.exit_code, isinstance(result.exception, Error))
    assert {"file": ""} == files(tmp_path)


def test_a_file_that_cannot_be_written_whole_is_not_left(tmp_path, monkeypatch):
    class Full:
        def write(self, _text):
            raise OSError(28, "No space left on device")

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    usual = Path.open

    def full(path, mode="r", *arguments):
        if mode != "xb":
            return usual(path, mode, *arguments)
        path.touch()
        return Full()

    monkeypatch.setattr(Path, "open", full)
    result = init(tmp_path)
    assert "schema.graphql cannot be written: No space left on device" in str(result.exception)
    assert {} == files(tmp_path)


def test_rowcast_check_accepts_the_files(tmp_path, monkeypatch):
    init(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(command, ("check", "--run-resources"))
    assert (0, True) == (result.exit_code, "resources: Greeting, Dog" in result.output)


def test_the_settings_are_the_defaults(tmp_path):
    init(tmp_path)
    assert load_config(None, {}) == load_config(tmp_path / "rowcast.yaml", {})


def test_the_tables_are_those_of_the_sample(tmp_path):
    """One page of examples, in README.md, is for both."""
    init(tmp_path)
    sample, made = attributes(ROOT), attributes(tmp_path)
    assert made == {name: sample[name] for name in made}


def test_the_example_changes_a_table_and_adds_a_path(tmp_path):
    init(tmp_path)
    shutil.rmtree(tmp_path / "resources/__pycache__", ignore_errors=True)
    assert ["Greeting", "Dog"] == [path for path, _ in load_resources(tmp_path / "resources")]


async def test_the_rule_of_the_example_holds_however_a_dog_is_written(tmp_path):
    """What is no object is refused by the table; it is no error of the example."""
    init(tmp_path)
    (dog,) = [found for path, found in load_resources(tmp_path / "resources") if path == "Dog"]
    async with asgi(resources=[dog]) as rest:
        assert (await rest.put("/Dog/1", b'{"name":"Rex"}')).status == 201
        for method, path in (("PUT", "/Dog/1"), ("PATCH", "/Dog/1"), ("POST", "/Dog/")):
            answer = await rest.ask(method, path, b'{"name":"Cat"}')
            assert (answer.status, "not called Cat" in answer.value["detail"]) == (400, True)
        for method in ("PUT", "PATCH"):
            for wrong in (b'["Cat"]', b'"Cat"', b'{"name": "Cat"'):
                assert (await rest.ask(method, "/Dog/1", wrong)).status in {400, 422}
        assert (await rest.get("/Dog/1")).value["name"] == "Rex"


def test_the_table_of_the_readme_is_a_part_of_the_checkout_s():
    """What the server sets is all in it, because answers show that without being asked."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = parse_schema(text.partition("```graphql\n")[2].partition("```")[0]).tables[0]
    whole = load_schema(ROOT / "schema.graphql").table(shown.name)
    of_file = {item.name: replace(item, description="") for item in whole.attributes}
    assert {item.name: item for item in shown.attributes}.items() <= of_file.items()
    server_s = {item.name for item in whole.attributes if item.role is not None}
    assert {"created", "updated"} == server_s <= {item.name for item in shown.attributes}
