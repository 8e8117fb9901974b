"""NATS servers that are not Rowcast's own: what an operator runs already."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from free_ports import free_ports
from rowcast.engines.nats_server import find_executable

USER, PASSWORD = "operator", "of:the@servers"


class ForeignNats:
    """So many servers, one cluster where there is more than one; ``sync`` of each by its number.

    ``wrapper`` goes before the command of each. ``own`` are settings of ``jetstream``.
    """

    def __init__(
        self,
        folder: Path,
        count: int,
        sync: Sequence[str] = (),
        wrapper: Sequence[str] = (),
        streams: Path | None = None,
        max_payload: int = 8 << 20,
    ) -> None:
        self.folder, self._wrapper = folder, wrapper
        clients, monitors, routes = (free_ports(count) for _ in range(3))
        self.addresses = [f"nats://operator:of%3Athe%40servers@127.0.0.1:{one}" for one in clients]
        self.monitors = [f"http://127.0.0.1:{one}" for one in monitors]
        self.processes: list[subprocess.Popen[bytes]] = []
        self._files = []
        for index in range(count):
            home = folder / f"s{index}"
            home.mkdir(parents=True, exist_ok=True)
            store = streams or home / "streams"
            written: dict[str, object] = {
                "server_name": f"foreign-{index}",
                "listen": f"127.0.0.1:{clients[index]}",
                "http": f"127.0.0.1:{monitors[index]}",
                "authorization": {"user": USER, "password": PASSWORD},
                "jetstream": {"store_dir": str(store), "max_file_store": 1 << 30}
                | ({"sync_interval": sync[index]} if index < len(sync) else {}),
                "max_payload": max_payload,
                "log_file": str(home / "log"),
            }
            if count > 1:
                written["cluster"] = {
                    "name": "foreign",
                    "listen": f"127.0.0.1:{routes[index]}",
                    "routes": [f"nats-route://127.0.0.1:{one}" for one in routes],
                }
            file = home / "conf"
            file.write_text(json.dumps(written))
            self._files.append(file)

    def start(self) -> None:
        """Start all, and return at once."""
        for file in self._files:
            command = [*self._wrapper, find_executable(), "-c", str(file)]
            self.processes.append(subprocess.Popen(command))

    def kill(self) -> None:
        """End all at once."""
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes.clear()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
