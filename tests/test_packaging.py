"""What is installed where: locks, the licence, and the image."""

import ast
import re
import sys
import tomllib
from importlib import metadata

import yaml

from house import ROOT, relative, text_files
from rowcast.auth.anonymous import anonymous_from
from rowcast.core.callers import NONE
from rowcast.core.overload_limits import STOP_SECONDS_MAX
from rowcast.program.config import load_config

BRIDGE_ADDRESS = "172.17.0.1"
"""From where a container sees the callers of a port that is published with ``docker run -p``."""


def locked(name):
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE))


def image_variables():
    """Return the variables of settings that the image sets."""
    text = (ROOT / "Dockerfile").read_text()
    [line] = re.findall(r"^ENV (ROWCAST_.+)$", text, re.MULTILINE)
    return dict(item.split("=") for item in line.split())


def test_the_image_lets_nobody_in_without_a_name():
    """A port that is published to the network must not be open to it before there are users."""
    config = load_config(None, image_variables(), {})
    assert ("0.0.0.0", "0.0.0.0") == (config.http.host, config.mqtt.network.host)
    stranger = anonymous_from(config.security.anonymous)(BRIDGE_ADDRESS, "http")
    assert NONE == stranger.grants


def test_the_image_has_the_installed_wheel_and_no_sources():
    text = (ROOT / "Dockerfile").read_text()
    stages = text.split("\nFROM ")[1:]
    assert 2 == len(stages)
    assert "hatchling build" in stages[0]
    assert [] == re.findall(r"COPY (?!--from)[^\n]*\bapp\b|PYTHONPATH", stages[1])


def volume_folders():
    """Return the folders of the image from which a volume takes its owner."""
    text = (ROOT / "Dockerfile").read_text()
    words = re.search(r"install --directory --owner rowcast [^/]*0700 (.+)$", text, re.MULTILINE)
    return set(words[1].split())


def mounted(service, volumes):
    """Return the volume at each place in a container.

    Of a name of one letter Compose makes a path of Windows: "c:/data" is no volume then.
    """
    places = dict(reversed(text.split(":")) for text in service["volumes"])
    assert set() == set(places.values()) - volumes.keys()
    assert [] == [name for name in places.values() if len(name) == 1]
    return places


def test_compose_uses_the_ports_and_places_of_the_image():
    image = (ROOT / "Dockerfile").read_text()
    file = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
    service = file["services"]["rowcast"]
    exposed = re.search(r"^EXPOSE (.+)$", image, re.MULTILINE)[1].split()
    assert {port.split(":")[1] for port in service["ports"]} <= set(exposed)
    places = mounted(service, file["volumes"])
    assert "VOLUME /data" in image
    assert str(load_config(None, image_variables(), {}).data) == "/data"
    assert {"/data", "/backups"} == places.keys()
    assert set() == places.keys() - volume_folders()
    assert (ROOT / "deploy" / service["build"]["context"] / "Dockerfile").exists()


def test_no_container_is_killed_while_its_server_ends():
    """Docker kills after ten seconds, unless it is told another time."""
    file = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
    times = [file["services"]["rowcast"]["stop_grace_period"].removesuffix("s")]
    for name in ("Dockerfile", "docs/deployment.md"):
        [run] = re.findall(r"docker run --name rowcast .+", (ROOT / name).read_text())
        times += re.findall(r"--stop-timeout (\d+)", run)
    assert 3 == len(times)
    assert min(map(int, times)) > STOP_SECONDS_MAX


def test_the_files_of_compose_share_no_volume():
    """Without a name, that of a file's folder counts: "deploy", for any number of projects."""
    names = [
        yaml.safe_load((ROOT / "deploy" / file).read_text()).get("name")
        for file in ("compose.yaml", "cluster.compose.yaml", "spark/compose.yaml")
    ]
    assert None not in names
    assert 3 == len(set(names))


def test_the_image_sorts_large_answers_on_its_volume():
    text = (ROOT / "Dockerfile").read_text()
    assert ["/data"] == re.findall(r"^ENV SQLITE_TMPDIR=(.+)$", text, re.MULTILINE)
    assert ["/data"] == re.findall(r"^VOLUME (.+)$", text, re.MULTILINE)


def test_the_image_is_made_without_a_secret_of_the_cluster():
    """The build gets the folder's files, less these."""
    assert "deploy" in (ROOT / ".dockerignore").read_text().split()


def test_the_server_is_installed_without_the_tools_of_tests():
    server, everything = locked("requirements-server.lock"), locked("requirements.lock")
    assert {} == {name: version for name, version in server.items() if everything[name] != version}
    assert set() == server.keys() & {"pytest", "playwright", "duckdb", "ruff", "mypy", "paho-mqtt"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {re.match(r"[\w-]+", text)[0].lower() for text in project["dependencies"]}
    assert set() == named - server.keys()


def test_readings_are_replayed_with_what_the_server_and_the_sample_install():
    """The README has who started the server run scripts/load, before any test tools."""
    code = ast.parse((ROOT / "scripts" / "replay.py").read_text())
    modules = {node.module for node in ast.walk(code) if isinstance(node, ast.ImportFrom)}
    modules |= {
        x.name for node in ast.walk(code) if isinstance(node, ast.Import) for x in node.names
    }
    used = {name.partition(".")[0] for name in modules if name} - sys.stdlib_module_names
    of_package = metadata.packages_distributions()
    packages = {of_package[name][0].lower() for name in used if name in of_package} - {"rowcast"}
    text = (ROOT / "scripts" / "install").read_text()
    sample = set(re.findall(r"install_locked ([\w-]+)", text))
    assert "paho-mqtt" in packages
    assert set() == packages - locked("requirements-server.lock").keys() - sample


def test_what_compiles_is_locked_at_the_versions_of_the_tests():
    tools, everything = locked("requirements-compile.lock"), locked("requirements.lock")
    assert {} == {name: version for name, version in tools.items() if everything[name] != version}
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    assert {re.match(r"[\w-]+", text)[0] for text in groups["compile"]} <= tools.keys()


def test_lock_files_name_no_address():
    """They name hashes: where packages come from is up to who installs them."""
    locks = [path for path in text_files() if path.suffix == ".lock" or "-lock." in path.name]
    assert len(locks) > 1
    assert [] == [relative(path) for path in locks if "://" in path.read_text("utf-8")]


def test_the_image_is_built_with_compiled_modules():
    first, second = (ROOT / "Dockerfile").read_text().split("\nFROM ")[1:]
    assert "COMPILED=yes" in first
    releases = [stage.split()[0].removesuffix("-slim") for stage in (first, second)]
    assert 1 == len(set(releases)), "what is compiled fits one Python only"


def test_the_licence_is_the_one_that_the_project_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert ("Apache-2.0", ["LICENSE"]) == (project["license"], project["license-files"])
    assert (
        "Apache License\n                           Version 2.0" in (ROOT / "LICENSE").read_text()
    )


def test_it_is_said_how_many_packages_the_server_needs():
    """Where a user reads what the first start downloads."""
    count = str(len(locked("requirements-server.lock")))
    for page in ("README.md", "scripts/install"):
        said = re.findall(r"(\d+) packages", (ROOT / page).read_text())
        assert count in said, page
