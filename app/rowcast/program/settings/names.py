"""Other names of settings and of sections: those of Harper's file, and those of earlier versions.

A former name works like the current one, and the server's log has a warning for each.
"""

from typing import Final

FORMER: Final = {
    "log.keep_seconds": "history.keep_seconds",
    "log.keep_events": "history.keep_events",
    "log.keep_bytes": "history.keep_bytes",
    "log.sweep_seconds": "history.sweep_seconds",
    "events": "client_events",
    "mqtt.ban.drops": "mqtt.flapping.max_disconnects",
    "mqtt.ban.within_seconds": "mqtt.flapping.window_seconds",
    "mqtt.rate.over": "mqtt.rate.action",
    "retainer.enable": "retainer.enabled",
}
"""Names of version 0.1.0; the last is EMQX's, which the retainer's settings follow."""

OTHER_NAMES: Final = FORMER | {"mqtt.network.mtls": "mqtt.mTLS"}
"""All alternative names; the last one is Harper's."""


def current_name(key: str) -> str:
    """Return the current name of a setting."""
    for other, name in OTHER_NAMES.items():
        if _is_within(key, other):
            return name + key.removeprefix(other)
    return key


def is_former(key: str) -> bool:
    """Whether a setting is given under a former name."""
    return any(_is_within(key, former) for former in FORMER)


def _is_within(key: str, section: str) -> bool:
    return key == section or key.startswith(f"{section}.")
