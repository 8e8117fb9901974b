"""A file that the operating system refuses a command: one sentence, no traceback (O9)."""

import errno
from pathlib import Path

import pytest

import rowcast.program.commands.users
from rowcast.core.errors import Error
from rowcast.program.cli import main
from rowcast.program.membership_mark import marked


def fail(monkeypatch, capsys, *words):
    monkeypatch.setattr("sys.argv", ["rowcast", *words])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert 1 == exit_.value.code
    return capsys.readouterr().err


def refuse(error):
    def refused(*_):
        raise error

    return refused


def test_o9_a_name_that_the_file_system_refuses_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    name = "x" * 300
    told = fail(monkeypatch, capsys, "user", "list", "--file", name)
    assert f"rowcast: {name}: File name too long\n" == told


def test_o9_a_file_of_another_user_is_told_with_what_to_do(tmp_path, monkeypatch, capsys):
    """A test that runs as root can read all files, so the refusal is made here."""
    monkeypatch.chdir(tmp_path)
    denied = PermissionError(errno.EACCES, "Permission denied", "data/users.json")
    monkeypatch.setattr(rowcast.program.commands.users, "load_config", refuse(denied))
    told = fail(monkeypatch, capsys, "user", "list")
    assert told.startswith("rowcast: data/users.json: Permission denied; run the command as the ")


def test_o9_a_data_directory_of_another_user_is_told_with_what_to_do(tmp_path, monkeypatch):
    """The first file that a start reads in it need not even exist."""
    denied = PermissionError(errno.EACCES, "Permission denied", "cluster.json")
    monkeypatch.setattr(Path, "read_text", refuse(denied))
    with pytest.raises(Error, match="belongs to another user") as caught:
        marked(tmp_path)
    assert f"the data directory {tmp_path}" in caught.value.message
    assert "run the command as that user, or name another with --data" in caught.value.message


def test_a_fault_of_no_file_keeps_its_traceback(monkeypatch):
    fault = OSError(errno.EBADF, "Bad file descriptor")
    monkeypatch.setattr(rowcast.program.commands.users, "load_config", refuse(fault))
    monkeypatch.setattr("sys.argv", ["rowcast", "user", "list"])
    with pytest.raises(OSError, match="Bad file descriptor"):
        main()
