"""Settings that do not go together, which no single one of them shows.

What cannot work is a mistake, and what has no effect a warning; each names the source of one of
the settings. ``program/config.py`` asks for both once all settings are joined.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from rowcast.program.config import Config

_EVERY: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound
"""Addresses that stand for all of a machine."""


class Given(Protocol):
    """A setting that was set."""

    @property
    def place(self) -> str:
        """Its source: a file and line, the environment or the command line."""


def clashes(config: "Config", given: "Mapping[str, Given]") -> Iterator[str]:
    """Yield a line for each two doors that would listen on one port.

    ``given`` are the settings that were set, by name.
    """
    for one, other in combinations(_doors(config), 2):
        (name, host, port), (second, other_host, other_port) = one, other
        if not port or port != other_port:  # 0 picks a free one
            continue
        if host == other_host or not _EVERY.isdisjoint({host, other_host}):
            place = (given.get(second) or given[name]).place  # their defaults differ
            yield f"{place}: {name} and {second} are both {port}; choose another port for one"


def idle(config: "Config", given: "Mapping[str, Given]") -> Iterator[str]:
    """Yield a warning for each setting that has no effect because of another."""
    log = config.log
    values = {"log.archive_location": log.archive_location, "log.archive_days": log.archive_days}
    for name, value in values.items() if not log.archive else ():
        if value and name in given:
            yield f"{given[name].place}: {name} has no effect without log.archive; set that to true"
    code = given.get("resources")
    # Units and images set the variable also for projects without code of their own.
    if code and not code.place.startswith("environment") and not config.resources.exists():
        what = f"resources: there is no directory {config.resources}"
        yield f"{code.place}: {what}, so no code of yours is loaded, and no hook of it refuses"


def _doors(config: "Config") -> Iterator[tuple[str, str, int | None]]:
    """Yield the setting, address and port of each door that will be open."""
    network, http = config.mqtt.network, config.http
    yield "http.port", http.host, http.port
    yield "mqtt.network.port", network.host, network.port
    if config.tls.certificate:
        yield "http.securePort", http.host, http.secure_port
        yield "mqtt.network.securePort", network.host, network.secure_port
