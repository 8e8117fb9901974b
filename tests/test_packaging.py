"""What is installed where: locks, the licence, and the image."""

import json
import re
import tomllib

import yaml

from house import ROOT, relative, text_files
from rowcast.auth.anonymous import anonymous_from
from rowcast.core.callers import NONE
from rowcast.program.config import load_config

BRIDGE_ADDRESS = "172.17.0.1"
"""From where a container sees the callers of a port that is published with ``docker run -p``."""


def locked(name):
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE))


def image_settings():
    words = re.search(
        r"^CMD (\[.*?\])$", (ROOT / "Dockerfile").read_text(), re.DOTALL | re.MULTILINE
    )[1]
    command = json.loads(words.replace("\\\n", ""))
    given = [command[at + 1] for at, word in enumerate(command) if word == "--set"]
    return dict(text.split("=") for text in given)


def test_the_image_lets_nobody_in_without_a_name():
    """A port that is published to the network must not be open to it before there are users."""
    config = load_config(None, {}, image_settings())
    assert ("0.0.0.0", "0.0.0.0") == (config.http.host, config.mqtt.network.host)
    stranger = anonymous_from(config.security.anonymous)(BRIDGE_ADDRESS, "http")
    assert NONE == stranger.grants


def test_the_image_has_the_installed_wheel_and_no_sources():
    text = (ROOT / "Dockerfile").read_text()
    stages = text.split("\nFROM ")[1:]
    assert 2 == len(stages)
    assert "hatchling build" in stages[0]
    assert [] == re.findall(r"COPY (?!--from)[^\n]*\bapp\b|PYTHONPATH", stages[1])


def test_compose_uses_the_ports_and_places_of_the_image():
    image = (ROOT / "Dockerfile").read_text()
    service = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]["rowcast"]
    exposed = re.search(r"^EXPOSE (.+)$", image, re.MULTILINE)[1].split()
    assert {port.split(":")[1] for port in service["ports"]} <= set(exposed)
    assert "VOLUME /data" in image
    assert "data:/data" in service["volumes"]
    assert (ROOT / "deploy" / service["build"]["context"] / "Dockerfile").exists()


def test_the_server_is_installed_without_the_tools_of_tests():
    server, everything = locked("requirements-server.lock"), locked("requirements.lock")
    assert {} == {name: version for name, version in server.items() if everything[name] != version}
    assert set() == server.keys() & {"pytest", "playwright", "duckdb", "ruff", "mypy", "paho-mqtt"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {re.match(r"[\w-]+", text)[0].lower() for text in project["dependencies"]}
    assert set() == named - server.keys()


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
