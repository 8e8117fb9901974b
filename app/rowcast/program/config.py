"""The configuration: one frozen value, from a file, the environment and flags.

A setting has one dotted name everywhere: ``mqtt.network.port`` in ``rowcast.yaml``, in ``--set
mqtt.network.port=1884``, and, spelt ``ROWCAST_MQTT__NETWORK__PORT``, in the environment. Flags
override the environment, that overrides the file, that overrides the defaults below. All mistakes
are reported at once, with their places. No other module reads a configuration file, and only
``credentials`` beside it the environment.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import yaml
from pydantic import AfterValidator, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from rowcast import features
from rowcast.core.errors import Code, Error
from rowcast.core.sign_in import CREDENTIALS
from rowcast.core.suggestions import nearest
from rowcast.program.client_settings import DEFAULT_FILE
from rowcast.program.credentials import PREFIX
from rowcast.program.settings.client_events import ClientEventsSettings
from rowcast.program.settings.cluster import Cluster
from rowcast.program.settings.gateway import GatewaySettings
from rowcast.program.settings.history import HistorySettings
from rowcast.program.settings.hooks import HookSettings
from rowcast.program.settings.http import Http, Sse, WebSocket
from rowcast.program.settings.logging import Logging
from rowcast.program.settings.memory import Memory, Subscriptions
from rowcast.program.settings.mistakes import mistake
from rowcast.program.settings.mqtt import Mqtt
from rowcast.program.settings.names import current_name, is_former
from rowcast.program.settings.retainer import RetainerSettings, otherwise
from rowcast.program.settings.security import Security
from rowcast.program.settings.snapshots import SnapshotSettings
from rowcast.program.settings.store import Log, Store
from rowcast.program.settings.texts import composed, is_writable, read, value_of
from rowcast.program.settings.tls import Tls
from rowcast.program.settings.together import clashes, idle
from rowcast.program.settings.topics import Topics
from rowcast.program.settings.workers import Workers
from rowcast.settings.sections import Place, PlaceOrNone, Section

MAPS: Final = frozenset({"topics.tables", "security.jwt.role_names", "snapshots.audiences"})
"""Settings that are maps from user-defined names to sections."""
SECRET: Final = frozenset(
    {
        "store.url",
        "retainer.backends.built_in_database.ds.url",
        "tls.privateKeyPassword",
        "security.jwt.key",
        "alarms.webhook",
        "alarms.webhook_secret",
        "alarms.webhooks",
        "cluster.secret",
        "cluster.engine",
        "cluster.nats",
        "mirror.url",
        "url",
    }
)
"""Settings whose value may contain a password, so that no message repeats it."""


def _address(value: str) -> str:
    if value and not re.fullmatch(r"https?://[^/\s]+/?", value):
        raise ValueError(
            "should be an address such as http://127.0.0.1:9926, without a path and without spaces "
            "(%20 in a password)"
        )
    return value.rstrip("/")


def _feature_sections() -> dict[str, type[Section]]:
    """Return the sections of features, from ``settings.py`` in their folders."""
    found: dict[str, type[Section]] = {}
    for folder in iter_modules(features.__path__):
        module = f"{features.__name__}.{folder.name}.settings"
        if folder.ispkg and find_spec(module) is not None:
            found |= import_module(module).SECTIONS
    return found


if TYPE_CHECKING:
    FeatureSections = Section
else:
    FeatureSections = create_model(
        "FeatureSections",
        __base__=Section,
        **{name: (section, section()) for name, section in _feature_sections().items()},
    )

S = TypeVar("S", bound=Section)


class Config(FeatureSections):
    """Every setting, checked; made by ``load_config``, or directly in tests."""

    http: Http = Http()
    mqtt: Mqtt = Mqtt()
    tls: Tls = Tls()
    topics: Topics = Topics()
    retainer: RetainerSettings = RetainerSettings()
    history: HistorySettings = HistorySettings()
    client_events: ClientEventsSettings = ClientEventsSettings()
    memory: Memory = Memory()
    subscriptions: Subscriptions = Subscriptions()
    sse: Sse = Sse()
    websocket: WebSocket = WebSocket()
    security: Security = Security()
    hooks: HookSettings = HookSettings()
    gateway: GatewaySettings = GatewaySettings()
    snapshots: SnapshotSettings = SnapshotSettings()
    store: Store = Store()
    log: Log = Log()
    workers: Workers = Workers()
    cluster: Cluster = Cluster()
    logging: Logging = Logging()
    schema_file: Place = Field(
        default=Path("schema.graphql"), alias="schema", description="File that declares the tables."
    )
    resources: Place = Field(
        default=Path("resources"),
        description="Directory of resource classes and hooks; it may be absent, with a warning if "
        "the file or a flag names it.",
    )
    data: Place = Field(default=Path("data"), description="Directory of all persistent data.")
    url: Annotated[str, AfterValidator(_address)] = Field(
        default="",
        description="Server that the client commands use; by default `http.host` and `http.port`.",
    )
    authority: PlaceOrNone = Field(
        default=None,
        description="File with authorities that the client commands trust besides the system's "
        "(PEM); by default `tls.certificateAuthority`.",
    )

    _warnings: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """A warning for each setting given under a former name, or without effect."""
        return self._warnings

    def of(self, section: type[S]) -> S:
        """Return the section of a feature, by its class."""
        return next(value for _, value in self if type(value) is section)

    @property
    def users_file(self) -> Path:
        """The path of the users file."""
        given = self.security.users
        return Path(given).expanduser() if given else self.data / "users.json"

    @property
    def database_url(self) -> str:
        """The URL of the database."""
        passed = self.retainer.backends.built_in_database.ds.url
        file = (self.data / "rowcast.db").resolve()
        return self.store.url or passed or f"sqlite:///{file}"

    @property
    def server_url(self) -> str:
        """The server's URL for a client on this machine."""
        if self.url:
            return self.url
        reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
        host = reachable.get(self.http.host, self.http.host)
        secure = self.http.port is None
        scheme, port = ("https", self.http.secure_port) if secure else ("http", self.http.port)
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


# -- names -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Key:
    """The documentation of one setting: description, default and environment variable."""

    description: str
    default: object
    environment: str


def config_keys() -> dict[str, Key]:
    """Return every setting by its dotted name, in the order of the sections above."""
    return {
        name: Key(field.description or "", field.default, _variable(name))
        for name, field in _fields(Config)
    }


def _fields(model: type[Section], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        key = prefix + (field.alias or name)
        if isinstance(field.default, Section):
            yield from _fields(type(field.default), f"{key}.")
        else:
            yield key, field


def _variable(key: str) -> str:
    return PREFIX + key.replace(".", "__").upper()


def _short_names(known: Iterable[str]) -> dict[str, str]:
    """Return short names: a section's name for its setting ``enabled``."""
    return {key.removesuffix(".enabled"): key for key in known if key.endswith(".enabled")}


# -- reading ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Given:
    """A value for a setting, with its source."""

    key: str
    value: object
    where: str
    former: str = ""
    """The former name under which it was given, if any."""

    @property
    def place(self) -> str:
        """The source, with the former name if one was used."""
        return f"{self.where} (as {self.former})" if self.former else self.where

    def warning(self, winner: "_Given") -> str:
        """Return a warning that the name is a former one, and whether the value is used."""
        ignored = f", and is ignored: {winner.where} sets that" if winner is not self else ""
        return f"{self.where}: {self.former} is now {self.key}{ignored}"


def load_config(
    file: Path | None = None,
    env: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Config:
    """Return the settings of a file, the environment and the command line, in rising priority.

    ``file`` None means DEFAULT_FILE if it exists; ``env`` None means the process's own.
    ``overrides`` are by dotted name. Raises INVALID with one line for each mistake.
    """
    known = dict(_fields(Config))
    sources = (
        _read_file(file),
        _read_environment(os.environ if env is None else env, known),
        (_Given(key, value, "command line") for key, value in (overrides or {}).items()),
    )
    given = [item for source in sources for item in _renamed(source, _short_names(known))]
    problems = [problem for item in given if (problem := _misnamed(item, known))]
    winners = {item.key: item for item in given if item.key in known}
    try:
        config = Config.model_validate(_nested(winners.values(), known))
        problems += clashes(config, winners)
    except ValidationError as error:
        problems += [_misvalued(details, winners) for details in error.errors()]
    if problems:
        raise Error(Code.INVALID, "\n".join(problems))
    former = (i.warning(winners[i.key]) for i in given if i.former and i.key in winners)
    config._warnings = (*former, *idle(config, winners))
    return config


def _read_file(file: Path | None) -> Iterator[_Given]:
    path = file or Path(DEFAULT_FILE)
    if file is None and not path.exists():
        return
    try:
        root = composed(path.read_text(encoding="utf-8"))
        if isinstance(root, yaml.MappingNode):
            yield from _walk(root, "", str(path))
        elif root is not None:
            raise Error(Code.INVALID, f"{path}: should hold settings, such as 'http: {{port: 80}}'")
    except OSError as error:
        raise Error(Code.INVALID, f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Error(Code.INVALID, f"{path}: is not YAML: {error}") from error
    except ValueError as error:
        raise Error(Code.INVALID, f"{path}: {error}") from error


_DEPTH_MAX: Final = 4
"""Deeper than any setting; bounds an alias that contains itself."""


def _walk(node: yaml.MappingNode, prefix: str, path: str) -> Iterator[_Given]:
    """Yield each leaf of a YAML mapping with its dotted name and line."""
    for key_node, value_node in node.value:
        key = f"{prefix}{key_node.value if isinstance(key_node, yaml.ScalarNode) else '?'}"
        where = f"{path}, line {key_node.start_mark.line + 1}"
        section = isinstance(value_node, yaml.MappingNode) and key not in MAPS
        if section and key.count(".") < _DEPTH_MAX:
            yield from _walk(value_node, f"{key}.", path)
        else:
            yield _Given(key, value_of(value_node), where)


def variable(name: str) -> str:
    """Return an environment variable that is no setting; empty when it is not set."""
    return os.environ.get(name, "")


def _read_environment(env: Mapping[str, str], known: Mapping[str, FieldInfo]) -> Iterator[_Given]:
    names = {_variable(key): key for key in (*known, *_short_names(known))}
    for name in sorted(env):
        if name.startswith(PREFIX) and name not in CREDENTIALS.values():
            key = names.get(name, name.removeprefix(PREFIX).lower().replace("__", "."))
            yield _Given(key, env[name], f"environment variable {name}")


def _renamed(source: Iterable[_Given], short: Mapping[str, str]) -> list[_Given]:
    """Return the values of a source under current names.

    Values under former names come first, so that the current name wins within a source.
    """
    items = [_under_own_name(item, short) for item in source]
    return sorted(items, key=lambda item: not item.former)


def _under_own_name(given: _Given, short: Mapping[str, str]) -> _Given:
    key = current_name(given.key)
    former = given.key if is_former(given.key) else ""
    if given.value is not None:  # an empty value is a section without settings
        key = short.get(key, key)
    return replace(given, key=key, former=former)


# -- validation ------------------------------------------------------------------------------------


def _misnamed(given: _Given, known: Mapping[str, FieldInfo]) -> str:
    """Return what is wrong with the name, or with the value's structure; empty if valid."""
    if not is_writable(given.value):
        return f"{given.where}: {given.key} holds NUL or half of a character; write it anew"
    inside = [key for key in known if key.startswith(f"{given.key}.")]
    if given.key in known or (inside and given.value is None):  # a section without any settings
        return ""
    if inside:
        return f"{given.where}: {given.key} is a section; it has {', '.join(inside)}"
    name = given.former or given.key
    if instead := otherwise(name):
        return f"{given.where}: {name} is not a setting: {instead}; leave it out"
    near, is_variable = nearest(name, known), given.where.startswith("environment variable")
    hint = f'; did you mean "{_variable(near) if is_variable else near}"?' if near else ""
    return f"{given.where}: {name} is not a setting{hint}"


def _nested(given: Iterable[_Given], known: Mapping[str, FieldInfo]) -> dict[str, object]:
    tree: dict[str, object] = {}
    for item in given:
        *sections, last = item.key.split(".")
        branch = tree
        for section in sections:
            inner = branch.setdefault(section, {})
            assert isinstance(inner, dict)  # noqa: S101 - a known name is never a section's too
            branch = inner
        listed = known[item.key].default == () or item.key in MAPS
        branch[last] = _split(item.value) if listed else item.value
    return tree


def _split(value: object) -> object:
    """Parse a list or a map: in the environment or a flag a list may be comma-separated.

    Otherwise the syntax is that of the file.
    """
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        return _items(value)
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _items(text: str) -> object:
    """Parse sections in YAML, or JSON, which is YAML."""
    try:
        return read(text)
    except ValueError:
        return text


def _misvalued(details: ErrorDetails, winners: Mapping[str, _Given]) -> str:
    """Return what is wrong with a value, and its source."""
    dotted = ".".join(str(part) for part in details["loc"])
    above = [key for key in winners if f"{dotted}.".startswith(f"{key}.")]
    key = (above or [key for key in winners if key.startswith(f"{dotted}.")])[0 if above else -1]
    name = key if isinstance(details["loc"][-1], int) else dotted if above else f"{dotted}:"
    return f"{winners[key].place}: {name} {mistake(details, Config, secret=key in SECRET)}"
