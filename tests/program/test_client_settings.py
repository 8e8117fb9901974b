"""What a client command finds without loading the configuration is what the configuration says."""

from pathlib import Path

import pytest

from rowcast.core.errors import Error
from rowcast.program.client_settings import ClientSettings, client_settings
from rowcast.program.config import load_config


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def whole(url=None, schema=None):
    """Return the same of the whole configuration."""
    given = {"url": url, "schema": schema}
    config = load_config(None, None, {name: item for name, item in given.items() if item})
    authority = config.authority or config.tls.certificate_authority
    return ClientSettings(config.server_url, authority, config.schema_file)


@pytest.mark.parametrize("url", [None, "", "http://127.0.0.1:1/", "https://ann:a%20b@door.example"])
@pytest.mark.parametrize("schema", [None, Path("other.graphql"), Path("~/home.graphql")])
def test_s19_defaults_and_flags_are_those_of_the_configuration(url, schema):
    assert whole(url, schema) == client_settings(url, schema)


@pytest.mark.parametrize(
    ("url", "schema"),
    [
        ("127.0.0.1:1", None),
        ("http://127.0.0.1 :1", None),
        ("http://door.example/path", None),
        ("http://127.0.0.1\udc80", None),
        (None, Path("s3://bucket/schema.graphql")),
    ],
)
def test_s19_mistakes_are_refused_as_the_configuration_refuses_them(url, schema):
    with pytest.raises(Error) as expected:
        whole(url, schema)
    with pytest.raises(Error) as found:
        client_settings(url, schema)
    assert expected.value.message == found.value.message


def test_s19_a_file_and_the_environment_are_heard(here, monkeypatch):
    (here / "rowcast.yaml").write_text("http: {port: 7}\nauthority: door.pem\n")
    assert (
        ClientSettings("http://127.0.0.1:7", Path("door.pem"), Path("schema.graphql"))
        == client_settings()
    )
    monkeypatch.setenv("ROWCAST_URL", "http://other.example")
    assert "http://other.example" == client_settings().url
    monkeypatch.setenv("ROWCAST_HTP__PORT", "1")
    with pytest.raises(Error, match="ROWCAST_HTP__PORT"):
        client_settings()
