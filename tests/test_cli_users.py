"""``rowcast user``: who may sign in, without a password on the command line (L2)."""

import json

import pytest
from typer.testing import CliRunner

import rowcast.program.commands.users
from rowcast.auth.users_file import read_users
from rowcast.core.callers import Grants
from rowcast.core.errors import Code, Error
from rowcast.program.cli import command


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data" / "users.json"


def run(*arguments, stdin=None):
    return CliRunner().invoke(command, ("user", *arguments), input=stdin)


@pytest.mark.parametrize("name", ["add", "remove", "list"])
def test_every_command_has_help_with_an_example(name):
    assert f"Example: rowcast user {name}" in run(name, "--help").output


def test_a_user_is_added_with_the_password_from_standard_input(path):
    assert "added ann: read, write, password\n" == run("add", "ann", stdin="pencil\n").output
    ann = read_users(path).users["ann"]
    assert Grants(read=True, write=True) == ann.grants
    assert ann.verifier.matches("pencil")


def test_the_password_is_no_argument(path):
    assert 0 != run("add", "ann", "pencil").exit_code
    assert not path.exists()


def test_adding_again_changes_password_and_rights(path):
    run("add", "ann", stdin="pencil\n")
    result = run("add", "ann", "--no-write", stdin="crayon\r\n")
    assert "changed ann: read, password\n" == result.output
    ann = read_users(path).users["ann"]
    assert Grants(read=True) == ann.grants
    assert ann.verifier.matches("crayon")


@pytest.mark.parametrize("name", ["\uff41nn", "a\u200dnn"], ids=["full-width", "zero-width"])
@pytest.mark.parametrize("verb", ["add", "disable", "remove"])
def test_another_spelling_of_a_name_changes_no_user(path, verb, name):
    run("add", "ann", stdin="pencil\n")
    before = path.read_bytes()
    result = run(verb, name, stdin="crayon\n")
    assert "a user of this name is written 'ann' (RFC 4013)" == str(result.exception)
    assert before == path.read_bytes()


@pytest.mark.parametrize("name", ["+", "a#b"])
def test_a_new_user_is_no_wildcard(path, name):
    """Its row could be neither watched nor changed."""
    result = run("add", name, stdin="pencil\n")
    assert "holds no '+' or '#'" in str(result.exception)
    assert not path.exists()


def test_an_old_user_with_a_wildcard_can_be_changed_and_removed(path):
    run("add", "ann", stdin="pencil\n")
    path.write_text(path.read_text().replace('"ann"', '"ann+1"'))
    assert run("add", "ann+1", stdin="crayon\n").output.startswith("changed ann+1")
    assert "removed ann+1\n" == run("remove", "ann+1").output


def test_a_user_may_have_no_password(path):
    assert "added sensor: write\n" == run("add", "sensor", "--no-read", "--no-password").output
    assert read_users(path).users["sensor"].verifier is None


def test_two_users_with_one_password_do_not_look_alike(path):
    for name in ("ann", "bob"):
        run("add", name, stdin="pencil\n")
    ann, bob = read_users(path).users.values()
    assert ann.verifier.salt != bob.verifier.salt


@pytest.mark.parametrize(
    ("name", "password", "told"),
    [
        ("$server", "pencil", "does not begin"),
        ("anonymous", "pencil", "is not anonymous"),
        ("a:b", "pencil", "holds no ':'"),
        ("ann", "", "not empty"),
        ("ann", "x" * 1025, "at most 1024 bytes"),
        ("ann", "a\x07b", "U\\+0007"),
    ],
)
def test_what_cannot_be_a_name_or_password_is_refused(path, name, password, told):
    result = run("add", name, stdin=f"{password}\n")
    assert isinstance(result.exception, Error)
    assert Code.INVALID is result.exception.code
    with pytest.raises(Error, match=told):
        raise result.exception
    assert not path.exists()


def test_a_directory_that_is_made_is_told(tmp_path):
    """L10: a misspelt one would have users that no server asks."""
    (tmp_path / "there").mkdir()
    for folder, told in (("there", False), ("typo", True), ("typo", False)):
        result = run("add", "ann", "--data", str(tmp_path / folder), stdin="x\n")
        assert told == (f"{tmp_path / folder} was not there, and is made" in result.stderr)


def test_users_of_a_directory_that_is_not_there_cannot_be_listed(tmp_path):
    """L10: a misspelt one would look as if there were no users."""
    (tmp_path / "file").touch()
    for name, said in (("typo", "there is no such directory"), ("file", "is a file")):
        result = run("list", "--data", str(tmp_path / name))
        assert 1 == result.exit_code
        assert said in str(result.exception)


def test_users_are_listed_and_removed(path):
    empty = run("list")
    assert ("", "data/users.json has no users\n") == (empty.stdout, empty.stderr)
    run("add", "bob", stdin="x\n")
    run("add", "ann", "--no-password", "--no-read", "--no-write")
    assert "ann: nothing\nbob: read, write, password\n" == run("list").output
    assert [("ann", [], False), ("bob", [], True)] == [
        (one["name"], one["roles"], one["password"])
        for one in map(json.loads, run("list", "--json").output.splitlines())
    ]
    assert "removed bob\n" == run("remove", "bob").output
    assert "ann: nothing\n" == run("list").output
    assert Code.NOT_FOUND is run("remove", "bob").exception.code


@pytest.mark.parametrize(
    "arguments",
    [("--data", "elsewhere"), ("--file", "elsewhere/users.json"), ("--config", "c.yaml")],
)
def test_the_file_is_the_one_that_the_server_reads(path, arguments):
    (path.parent.parent / "c.yaml").write_text("security: {users: elsewhere/users.json}")
    run("add", "ann", *arguments, stdin="x\n")
    assert ["ann"] == list(read_users(path.parent.parent / "elsewhere" / "users.json").users)


def test_a_person_is_asked_twice(path, monkeypatch):
    asked = []

    def prompt(text, **options):
        asked.append((text, options))
        return "pencil"

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(rowcast.program.commands.users.typer, "prompt", prompt)
    rowcast.program.commands.users.add("ann")
    assert [("Password", {"hide_input": True, "confirmation_prompt": True})] == asked
    assert read_users(path).users["ann"].verifier.matches("pencil")


def test_a_user_may_have_roles_and_attributes(path):
    """L10; what is not said again stays."""
    options = ("--role", "admin", "--role", "ops", "--attribute", 'sites=["n"]')
    result = run("add", "ann", *options, "--attribute", "team=blue", stdin="pencil\n")
    assert "added ann: read, write, role admin, role ops, password\n" == result.output
    first = read_users(path).users["ann"]
    assert {"sites": ["n"], "team": "blue"} == first.attributes
    run("add", "ann", "--attribute", "team=red", stdin="crayon\n")
    again = read_users(path).users["ann"]
    assert (first.roles, {"sites": ["n"], "team": "red"}) == (again.roles, again.attributes)
    assert again.issue > first.issue
    assert again.hashed.matches("crayon")


def test_scram_may_be_left_out(path):
    run("add", "ann", "--no-scram", stdin="pencil\n")
    ann = read_users(path).users["ann"]
    assert (None, True) == (ann.verifier, ann.hashed.matches("pencil"))


def test_a_user_is_disabled_until_it_is_added_again(path):
    run("add", "ann", stdin="pencil\n")
    assert "disabled ann\n" == run("disable", "ann").output
    assert "ann: read, write, password, disabled\n" == run("list").output
    assert "changed ann: read, write, password\n" == run("add", "ann", stdin="pencil\n").output
    with pytest.raises(Error, match="has no user eve"):
        rowcast.program.commands.users.disable("eve", None, None, path)


@pytest.mark.parametrize("option", ["nothing", "=x"])
def test_an_attribute_has_a_name_and_a_value(path, option):
    result = run("add", "ann", "--attribute", option, stdin="pencil\n")
    assert Code.INVALID is result.exception.code
    assert not path.exists()
