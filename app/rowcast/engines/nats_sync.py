"""Whether NATS servers that somebody else runs sync each message before they acknowledge it.

A client cannot see this: a server tells it at its monitoring port only (NATS documentation,
"Monitoring", ``/varz``: ``jetstream.config.sync_always``). Without it a power failure may lose
minutes of what was acknowledged (Jepsen, NATS 2.12.1).
"""

import json
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from http.client import HTTPException
from typing import Final
from urllib.request import urlopen

from rowcast.core.errors import Code, Error

log = logging.getLogger("rowcast.engines")

WAIT_SECONDS: Final = 2.0
"""For the answer of one server."""
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of ``/varz``, which is some kilobytes, more with many routes and gateways."""
LOOK_SECONDS: Final = 60.0
"""How often the servers are asked again: a setting changes by a restart only."""
MEND: Final = "set `jetstream { sync_interval: always }` in its configuration, and restart it"


def syncing(monitors: Sequence[str], seconds: float = WAIT_SECONDS) -> dict[str, bool]:
    """Ask each monitoring address; return whether it syncs always, by the server's name.

    A server that does not answer is left out.
    """
    found: dict[str, bool] = {}
    for monitor in monitors:
        url = f"{monitor.rstrip('/')}/varz"
        try:
            with urlopen(url, timeout=seconds) as answer:  # noqa: S310 - http, by the settings
                status = json.loads(answer.read(ANSWER_BYTES_MAX))
            streams = status.get("jetstream", {}).get("config") or {}
            found[str(status["server_name"])] = bool(streams.get("sync_always"))
        except (OSError, HTTPException, ValueError, KeyError, AttributeError) as error:
            log.debug("the monitoring address %s: %s", monitor, error)
    return found


def check_sync(servers: Collection[str], synced: Mapping[str, bool]) -> None:
    """Raise INVALID when one of those that keep the log does not sync each message.

    Raises BUSY unless a majority has answered: one that is down must not keep a node from starting.
    ``servers`` has the names of those that keep the log.
    """
    for name in sorted(servers):
        if synced.get(name) is False:
            raise Error(
                Code.INVALID,
                f"the NATS server {name} acknowledges messages before they are on its disk, and a "
                f"power failure would lose them; {MEND}",
            )
    silent = sorted(servers - synced.keys())
    if len(silent) * 2 >= len(servers):
        raise Error(
            Code.BUSY,
            f"it is not known whether the NATS servers {', '.join(silent)} sync what they "
            "acknowledge; name the monitoring address (http_port) of every server in "
            "cluster.nats_monitors, and see that this machine reaches it",
        )
    if silent:
        log.warning("it is not known whether %s syncs: it did not answer", ", ".join(silent))


class SyncWatch:
    """Asks again and again; what has changed is told in the log of the program.

    ``servers`` returns the names of those that keep the log; it may raise Error.
    """

    def __init__(
        self,
        servers: Callable[[], Collection[str]],
        monitors: Sequence[str],
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._servers, self._monitors, self._look_seconds = servers, monitors, look_seconds
        self._stopped = threading.Event()
        self.problem = ""
        """What is wrong now."""
        self._thread = threading.Thread(target=self._run, name="rowcast-nats-sync", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._look_seconds):
            self.look()

    def look(self) -> None:
        """Ask once."""
        try:
            check_sync(self._servers(), syncing(self._monitors))
        except Error as error:
            if error.code is Code.INVALID:
                self.problem = error.message
                log.error("%s", error.message)  # noqa: TRY400 - it is a sentence for an operator
        else:
            self.problem = ""

    def stop(self) -> None:
        """End."""
        self._stopped.set()
        self._thread.join()
