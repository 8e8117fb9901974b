"""A network of its own for each node of a cluster, so that links between nodes can be cut.

Linux network namespaces (ip-netns(8)), each with two links: one to a bridge, where nodes reach one
another, and one to this machine, where clients come from. A link that is cut loses packets without
a word, as a cable does that is pulled. Clients connect to ports of 127.0.0.1 as everywhere.
"""

import os
import selectors
import shutil
import socket
import subprocess
import threading
from contextlib import suppress
from typing import Final, Self

COPY_BYTES: Final = 65_536
CONNECT_SECONDS: Final = 5.0


def ip(*words: object) -> None:
    """Run ip(8)."""
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)


def may_cut() -> bool:
    """Whether this user may make networks."""
    if not shutil.which("ip"):
        return False
    name = f"rcprobe{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return False
    ip("netns", "del", name)
    return True


class Network:
    """So many hosts; ``addresses`` are where they reach one another."""

    def __init__(self, count: int) -> None:
        mark = os.getpid() % 10_000
        third = os.getpid() % 250
        self._bridge = f"rcb{mark}"
        self._names = [f"rc{mark}n{n}" for n in range(count)]
        self._links = [f"rcl{mark}n{n}" for n in range(count)]
        self._doors = [f"rcd{mark}n{n}" for n in range(count)]
        self.addresses = [f"10.213.{third}.{n + 1}" for n in range(count)]
        self._outside = [f"10.214.{third}.{4 * n + 1}" for n in range(count)]
        self._inside = [f"10.214.{third}.{4 * n + 2}" for n in range(count)]
        self._forwards: list[Forward] = []

    def __enter__(self) -> Self:
        try:
            ip("link", "add", self._bridge, "type", "bridge")
            ip("link", "set", self._bridge, "up")
            for number in range(len(self._names)):
                self._add(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _add(self, number: int) -> None:
        name, link, door = self._names[number], self._links[number], self._doors[number]
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", link, "type", "veth", "peer", "name", "nodes", "netns", name)
        ip("link", "set", link, "master", self._bridge, "up")
        ip("-n", name, "addr", "add", f"{self.addresses[number]}/24", "dev", "nodes")
        ip("-n", name, "link", "set", "nodes", "up")
        ip("link", "add", door, "type", "veth", "peer", "name", "clients", "netns", name)
        ip("addr", "add", f"{self._outside[number]}/30", "dev", door)
        ip("link", "set", door, "up")
        ip("-n", name, "addr", "add", f"{self._inside[number]}/30", "dev", "clients")
        ip("-n", name, "link", "set", "clients", "up")

    def __exit__(self, *_: object) -> None:
        for forward in self._forwards:
            forward.stop()
        for name in self._names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        bridge = ["ip", "link", "del", self._bridge]
        subprocess.run(bridge, capture_output=True, check=False)

    def command(self, number: int) -> list[str]:
        """What runs a program on a host, before its own words."""
        return ["ip", "netns", "exec", self._names[number]]

    def forward(self, number: int, port: int) -> None:
        """Have clients reach a port of a host at the same port of 127.0.0.1."""
        self._forwards.append(Forward(port, self._inside[number]))

    def cut(self, number: int) -> None:
        """Cut a host off from the others; its clients still reach it."""
        ip("link", "set", self._links[number], "down")

    def mend(self, number: int) -> None:
        """Connect it again."""
        ip("link", "set", self._links[number], "up")


class Forward:
    """Takes connections at a port of 127.0.0.1 to the same port of a host, until one side ends."""

    def __init__(self, port: int, host: str) -> None:
        self._target = host, port
        self._listening = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        """Accept no more."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        connect = socket.create_connection
        with client, suppress(OSError), connect(self._target, timeout=CONNECT_SECONDS) as server:
            server.settimeout(None)
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._copy(client, server)

    def _copy(self, client: socket.socket, server: socket.socket) -> None:
        with selectors.DefaultSelector() as waiting:
            waiting.register(client, selectors.EVENT_READ, server)
            waiting.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in waiting.select():
                    source = client if key.fileobj is client else server
                    data = source.recv(COPY_BYTES)
                    if not data:
                        return
                    key.data.sendall(data)
