"""How the commands sign in: by the URL, else by the environment; whom they trust (O9, L2)."""

import pytest

from rowcast.program.commands.server import client_of
from rowcast.program.commands.watching import Connection
from rowcast.program.config import load_config
from rowcast_client.following import LIVE, WAITING

BY_NAME = {"user": "ann", "password": "secret"}
URL = "http://a.example"
VARIABLES = ("URL", "USER", "PASSWORD", "TOKEN", "AUTHORITY")


@pytest.fixture
def clients(monkeypatch, tmp_path):
    """What clients are made with."""
    made = []
    monkeypatch.setattr(
        "rowcast.program.commands.server.SyncRowcast",
        lambda url, **options: made.append({"url": url, **options}),
    )
    monkeypatch.chdir(tmp_path)
    for name in VARIABLES:
        monkeypatch.delenv(f"ROWCAST_{name}", raising=False)
    return made


@pytest.mark.parametrize(
    ("given", "url", "told"),
    [
        (BY_NAME, URL, BY_NAME),
        ({"token": "t0"}, URL, {"token": "t0"}),
        ({**BY_NAME, "token": ""}, URL, BY_NAME),
        (BY_NAME, "http://ben:other@a.example", {}),
        ({}, URL, {}),
    ],
)
def test_the_environment_signs_in_unless_the_url_does(clients, monkeypatch, given, url, told):
    for name, value in given.items():
        monkeypatch.setenv(f"ROWCAST_{name.upper()}", value)
    client_of(url)
    assert [{"url": url, "authority": None, **told}] == clients


def test_credentials_are_no_settings(clients):
    """A server that is started where they are set ignores them; in a file they are a mistake."""
    assert [] == clients
    env = {f"ROWCAST_{name.upper()}": "x" for name in (*BY_NAME, "token")}
    assert load_config(None, env, {}) == load_config(None, {}, {})


@pytest.mark.parametrize("name", ["ROWCAST_AUTHORITY", "ROWCAST_TLS__CERTIFICATEAUTHORITY"])
def test_certificates_of_an_authority_are_trusted(clients, monkeypatch, tmp_path, name):
    file = tmp_path / "ca.pem"
    monkeypatch.setenv(name, str(file))
    client_of(URL)
    assert [file] == [made["authority"] for made in clients]


def test_no_password_is_printed(capsys):
    connection = Connection("http://ann:secret@a.example:81", "#")
    for state in (LIVE, WAITING):
        connection.on_state(state)
    told = capsys.readouterr().err
    assert ("a.example:81" in told, "secret" in told, "ann" in told) == (True, False, False)
