"""What ``rowcast`` says of itself: help, version, completion, without importing its commands."""

import gc
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import rowcast.program.cli
from rowcast import __version__
from rowcast.core.log_version import OPERATIONS
from rowcast.program.cli import command, load_command

COMMANDS = [
    name for name in rowcast.program.cli.COMMANDS if not hasattr(load_command(name), "commands")
]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name):
    result = run(name, "--help")
    assert 0 == result.exit_code
    assert f"Example: rowcast {name}" in result.output


def test_the_version_is_told():
    assert f"{__version__}, version {OPERATIONS} of the log\n" == run("--version").output


@pytest.mark.parametrize("arguments", ["--version", "--help", "-h"])
def test_version_and_help_import_no_command(arguments):
    """Importing them all takes a second of CPU, so the command line imports the one that runs."""
    code = (
        "import sys; from rowcast.program.cli import command; "
        "command(sys.argv[1:], standalone_mode=False); "
        "known = ('rowcast.', 'httpx', 'graphql'); "
        "print(*(name for name in sys.modules if name.startswith(known)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, arguments], capture_output=True, text=True, check=True
    )
    imported = set(result.stdout.split("\n")[-2].split())
    assert {
        "rowcast.core",
        "rowcast.core.errors",
        "rowcast.core.log_version",
        "rowcast.program",
        "rowcast.program.cli",
    } == imported


def test_help_names_every_command_on_a_line_of_its_own():
    lines = [
        line.split()[0] for line in run("--help").output.split("Commands:")[1].splitlines() if line
    ]
    assert list(rowcast.program.cli.COMMANDS) == lines


def test_no_flag_shows_a_type():
    assert "<bool>" not in run("--help").output + run("user", "add", "-h").output


@pytest.mark.parametrize("group", [[], ["user"], ["snapshots"], ["dead-letters"]])
def test_only_the_command_itself_offers_completion(group):
    assert ("--install-completion" in run(*group, "--help").output) is (group == [])


def test_a_misspelt_command_is_answered_with_the_nearest():
    assert "Did you mean 'tail'?" in run("tial").output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_written_for_a_shell(shell, monkeypatch):
    """``rowcast --install-completion`` puts this into the shell's configuration."""
    monkeypatch.setenv("_ROWCAST_COMPLETE", f"source_{shell}")
    result = CliRunner().invoke(command, [], prog_name="rowcast")
    assert 0 == result.exit_code
    assert "rowcast" in result.output


def test_completion_knows_commands_and_their_options(monkeypatch):
    monkeypatch.setenv("_ROWCAST_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_CWORD", "1")
    monkeypatch.setenv("COMP_WORDS", "rowcast ta")
    assert ["tail"] == CliRunner().invoke(command, [], prog_name="rowcast").output.split()
    monkeypatch.setenv("COMP_CWORD", "2")
    monkeypatch.setenv("COMP_WORDS", "rowcast tail --si")
    assert ["--since"] == CliRunner().invoke(command, [], prog_name="rowcast").output.split()


def run(*arguments):
    return CliRunner().invoke(command, arguments)


def test_a_command_that_is_imported_leaves_the_collector_on_and_its_modules_out():
    before = gc.get_freeze_count()
    try:
        load_command("get")
        assert (True, True) == (gc.isenabled(), gc.get_freeze_count() > before)
    finally:
        gc.unfreeze()
