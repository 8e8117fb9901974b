"""``rowcast serve --check-config``: what a server would have, and nothing is started (O1)."""

import pytest
from typer.testing import CliRunner

from app.cli import command
from app.core.errors import Error


def checked(folder, monkeypatch, config=""):
    """Run it in a folder of its own; return the result."""
    monkeypatch.chdir(folder)
    (folder / "rowcast.yaml").write_text(config)
    (folder / "schema.graphql").write_text("type Dog @table @export { id: ID @primaryKey }\n")
    return CliRunner().invoke(command, ["serve", "--check-config"], catch_exceptions=True)


def test_o1_check_config_starts_nothing(tmp_path, monkeypatch):
    """O1: not even the data directory is made."""
    monkeypatch.setattr("app.main.serve", lambda _config: pytest.fail("it started"))
    result = checked(tmp_path, monkeypatch)
    assert (0, True) == (result.exit_code, "schema.graphql: Dog" in result.output)
    assert {"rowcast.yaml", "schema.graphql"} == {item.name for item in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("mqtt: {network: {prot: 1}}\n", 'mqtt.network.prot is not a setting; did you mean "mqtt'),
        ("mqtt: {sys_interval: often}\n", "line 1: mqtt.sys_interval should be a valid number"),
    ],
)
def test_o1_check_config_says_what_where_and_how_to_mend_it(tmp_path, monkeypatch, config, said):
    result = checked(tmp_path, monkeypatch, config)
    assert isinstance(result.exception, Error)
    assert 1 == result.exit_code
    assert "rowcast.yaml, line 1: " in str(result.exception)
    assert said in str(result.exception)
