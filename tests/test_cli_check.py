"""``rowcast serve --check-config``, ``rowcast check``: what a server would have (O1)."""

import pytest
from typer.testing import CliRunner

from rowcast.core.errors import Error
from rowcast.features.derived.settings import JobSection
from rowcast.program.cli import command
from rowcast.program.config import load_config
from rowcast.program.deriving import JobPlan

SERVE = ("serve", "--check-config")


def checked(folder, monkeypatch, config="", arguments=SERVE):
    """Run it in a folder of its own; return the result."""
    monkeypatch.chdir(folder)
    (folder / "rowcast.yaml").write_text(config)
    (folder / "schema.graphql").write_text("type Dog @table @export { id: ID @primaryKey }\n")
    return CliRunner().invoke(command, arguments, catch_exceptions=True)


def test_o1_check_config_starts_nothing(tmp_path, monkeypatch):
    """O1: not even the data directory is made."""
    monkeypatch.setattr("rowcast.program.main.serve", lambda _config: pytest.fail("it started"))
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


TLS = "tls: {certificate: c.pem, privateKey: k.pem}\n"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("http: {port: 1883}\n", "http.port and mqtt.network.port are both 1883; choose"),
        (
            "http: {host: 0.0.0.0, port: 5}\nmqtt: {network: {host: 127.0.0.2, port: 5}}\n",
            "line 2: http.port and mqtt.network.port are both 5",
        ),
        (f"http: {{securePort: 9926}}\n{TLS}", "http.port and http.securePort are both 9926"),
        ("snapshots: {location: 's3://'}\n", "snapshots.location names no bucket; write s3://"),
        ("log: {archive_location: 's3:///x'}\n", "log.archive_location names no bucket"),
    ],
)
def test_o1_settings_that_cannot_work_together_are_mistakes(tmp_path, monkeypatch, config, said):
    """O1: with the file and the setting, before a start that would fail."""
    result = checked(tmp_path, monkeypatch, config)
    assert (1, True) == (result.exit_code, isinstance(result.exception, Error))
    assert "rowcast.yaml, line " in str(result.exception)
    assert said in str(result.exception)


@pytest.mark.parametrize(
    "config",
    [
        "http: {port: 0}\nmqtt: {network: {port: 0}}\n",
        "http: {port: off}\nmqtt: {network: {port: off}}\n",
        "http: {host: 127.0.0.2, port: 1883}\n",
        "http: {securePort: 9926}\n",
        "snapshots: {location: 's3://bucket'}\n",
        "log: {archive: true, archive_days: 3}\n",
    ],
)
def test_o1_settings_that_work_together_are_not(tmp_path, monkeypatch, config):
    """O1: ports that are free, closed, of other addresses or without a certificate."""
    result = checked(tmp_path, monkeypatch, config)
    assert (0, "") == (result.exit_code, result.stderr)


@pytest.mark.parametrize("setting", ["archive_days: 3", "archive_location: 's3://bucket'"])
def test_o1_settings_without_effect_are_warned_of(tmp_path, monkeypatch, setting):
    """O1: who sets how long the archive is kept means to have one."""
    result = checked(tmp_path, monkeypatch, f"log: {{{setting}}}\n")
    name = f"log.{setting.partition(':')[0]}"
    words = f"{name} has no effect without log.archive; set that to true"
    assert (0, f"warning: rowcast.yaml, line 1: {words}\n") == (result.exit_code, result.stderr)


def test_o1_code_that_is_not_there_is_warned_of_where_it_is_named(tmp_path, monkeypatch):
    """O1: hooks that refuse would be missing; a deployment's variable may name what is absent."""
    result = checked(tmp_path, monkeypatch, "resources: cods\n")
    words = "warning: rowcast.yaml, line 1: resources: there is no directory cods, so no code"
    assert (0, True) == (result.exit_code, result.stderr.startswith(words))
    (tmp_path / "cods").mkdir()
    assert "" == checked(tmp_path, monkeypatch, "resources: cods\n").stderr
    monkeypatch.setenv("ROWCAST_RESOURCES", "none")
    assert "" == checked(tmp_path, monkeypatch, "").stderr


@pytest.mark.parametrize(
    ("config", "made", "code"),
    [("", False, 1), ("", True, 0), ("jobs: {enabled: false}\n", False, 0)],
)
def test_o1_a_derived_table_whose_job_is_missing_is_told(tmp_path, monkeypatch, config, made, code):
    """O1, W4: the table and the job, unless the server runs none."""
    checked(tmp_path, monkeypatch, config)
    (tmp_path / "schema.graphql").write_text(
        "type Dog @table @export { id: ID @primaryKey }\n"
        'type Mean @table @export @derived(job: "jobs/mean.py", from: ["Dog"], every: "5m") '
        "{ id: ID @primaryKey }\n"
    )
    if made:
        (tmp_path / "jobs").mkdir()
        (tmp_path / "jobs/mean.py").touch()
    result = CliRunner().invoke(command, SERVE, catch_exceptions=True)
    words = "schema.graphql: Mean: @derived(job:): there is no file jobs/mean.py in"
    assert (code, bool(code)) == (result.exit_code, words in str(result.exception))


def test_o1_a_derived_table_without_the_library_is_told_with_a_remedy(tmp_path, monkeypatch):
    """O1, W4: by the check, and by the state of a run, which else tells of a child's exit code."""
    checked(tmp_path, monkeypatch, "")
    (tmp_path / "schema.graphql").write_text(
        "type Dog @table @export { id: ID @primaryKey }\n"
        'type Mean @table @export @derived(job: "jobs/mean.py", from: ["Dog"], every: "5m") '
        "{ id: ID @primaryKey }\n"
    )
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/mean.py").touch()
    monkeypatch.setattr("rowcast.program.deriving.find_spec", lambda _name: None)
    result = CliRunner().invoke(command, SERVE, catch_exceptions=True)
    words = "schema.graphql: Mean: @derived(job:): jobs need pyarrow, which is not installed: pip "
    assert (1, True) == (result.exit_code, words in str(result.exception))
    config = load_config(None, {}, {"schema": tmp_path / "schema.graphql"})
    with pytest.raises(Error, match=r"pip install 'rowcast\[parquet\]'"):
        JobPlan(config, config.of(JobSection)).work("jobs/mean.py", tmp_path, tmp_path / "rows")


@pytest.mark.parametrize(
    ("arguments", "ran"),
    [(("check",), False), (SERVE, False), (("check", "--run-resources"), True)],
)
def test_resources_are_run_when_it_is_asked_for(tmp_path, monkeypatch, arguments, ran):
    """A directory may be anybody's, and to check it is no word that its code is trusted."""
    (tmp_path / "resources").mkdir()
    code = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
    (tmp_path / "resources/mine.py").write_text(code)
    result = checked(tmp_path, monkeypatch, arguments=arguments)
    assert (0, ran) == (result.exit_code, (tmp_path / "ran").exists())
    assert ran or "mine.py (not run; see --run-resources)" in result.output


@pytest.mark.parametrize(
    ("declared", "code", "said"),
    [
        ("size: Int @computed", "", "nothing computes Dog.size"),
        ("size: Int @computed", '@computed("Dog.siz")', "computes Dog.siz, which the schema does"),
        ("size: Int @computed", '@computed("Dog.size")', None),
        ("size: Sice", '@computed("Dog.size")', "Unknown type 'Sice'"),
    ],
)
def test_functions_of_computed_attributes_are_checked(tmp_path, monkeypatch, declared, code, said):
    """A9: what the start would refuse is told before it, where code may be run."""
    (tmp_path / "resources").mkdir()
    lines = ["from rowcast import computed", code, "def size(dog): return 1"]
    (tmp_path / "resources/mine.py").write_text("\n".join(lines))
    checked(tmp_path, monkeypatch)
    text = f"type Dog @table @export {{ id: ID @primaryKey {declared} }}\n"
    (tmp_path / "schema.graphql").write_text(text)
    result = CliRunner().invoke(command, ("check", "--run-resources"), catch_exceptions=True)
    assert (1 if said else 0, True) == (result.exit_code, (said or "") in str(result.exception))


@pytest.mark.parametrize("source", [b"def\n", b"\0", b"\xff", b"(" * 9_999])
def test_resources_that_are_no_python_are_told(tmp_path, monkeypatch, source):
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources/mine.py").write_bytes(source)
    result = checked(tmp_path, monkeypatch, arguments=("check",))
    assert "resources/mine.py:" in str(result.exception)


def test_v5_alarms_are_checked(tmp_path, monkeypatch):
    """A condition that says nothing, and a webhook that the settings do not have."""
    checked(tmp_path, monkeypatch)
    for alarm, said in (
        ('@alarm(name: "a", when: "ag=gt=1")', '1:23: Dog declares no attribute "ag"'),
        ('@alarm(name: "a", when: "age=gt=1", webhook: "ops")', "alarms.webhooks has none"),
    ):
        (tmp_path / "schema.graphql").write_text(f"type Dog @table @export {alarm} {{ age: Int }}")
        result = CliRunner().invoke(command, ("check",), catch_exceptions=True)
        assert said.partition(": ")[2] in str(result.exception)
