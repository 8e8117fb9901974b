"""The certificates in use: one context for each door, all from the same files, renewed together.

Each new handshake asks for the context of its door, so a renewed certificate, key or authority
applies from the next connection on; open connections continue, except of clients whose certificate
was revoked: ``revoked`` is called when the lists change. A new context has its own session keys, so
no session is resumed that was negotiated under a removed authority. Invalid files are logged and
the contexts in use stay: a failed renewal is no outage.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rowcast.core.errors import Error
from rowcast.core.listener_limits import TLS_LOOK_SECONDS
from rowcast.net.identity import ClientCheck, Files, Identity, day_text, identity_of, server_context
from rowcast.net.revocation import SETTING, Revocations, read_revocations

log = logging.getLogger("rowcast.tls")

Stamp = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class DoorTls:
    """TLS options of one door: ALPN protocol names, and which client certificates it asks for."""

    protocols: tuple[str, ...] = ()
    check: ClientCheck | None = None


class Certificates:
    """Contexts by door; ``load`` them once before the doors open. Its numbers are plain counts."""

    def __init__(
        self, files: Files, doors: Mapping[str, DoorTls], now: Callable[[], float]
    ) -> None:
        self._files = files
        self._doors = doors
        self._now = now
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._tried: Stamp = ()
        self._identity = Identity()
        self._doubted_day = 0
        self._warned_of = 0.0
        self._look = asyncio.Event()
        self.revocations = Revocations()
        """Which certificates of clients were taken back."""
        self.revoked: Callable[[], Awaitable[None]] | None = None
        """Called on the loop when that has changed, and once more at the next look: a handshake
        that was under way may have begun before."""
        self._judged = self.revocations
        self._rounds = 0
        self.renewals = 0
        """How often other files were taken."""
        self.refusals = 0
        """How often other files could not be used."""

    def context(self, door: str) -> ssl.SSLContext:
        """Return the context for the next handshake at a door."""
        return self._contexts[door]

    def load(self) -> Identity:
        """Read the files, for all doors or none; blocks. Raises INVALID with the reason."""
        self._tried = self._stamp()  # before the files are read: what changes meanwhile is seen
        lists = [read_revocations(path) for path in self._lists()]
        made = {
            door: server_context(self._files, wanted.check, wanted.protocols)
            for door, wanted in self._doors.items()
        }
        identity = Identity()
        for context in made.values():
            identity = identity_of(context, self._files.certificate)
        self._contexts, self._identity, self._doubted_day = made, identity, 0
        self.revocations = lists[0] if lists else Revocations()
        self._doubt()
        return identity

    def _doubt(self) -> None:
        """Log once a day that the certificate has expired, or soon will."""
        now = self._now()
        doubt = self._identity.doubt(now)
        if doubt and self._doubted_day != (day := int(now // 86_400)):
            self._doubted_day = day
            log.warning("tls.certificate: %s: %s", self._files.certificate, doubt)
        ends = self.revocations.ends
        if ends is not None and now >= ends and self._warned_of != ends:
            self._warned_of = ends
            log.warning(
                "%s: a list is over since %s; clients whose certificates it is about are refused: "
                "renew it", SETTING, day_text(ends),
            )  # fmt: skip

    def renew(self, *, anyway: bool = False) -> None:
        """Read the files again if they have changed, or ``anyway``; blocks, and never raises."""
        if not anyway and self._stamp() == self._tried:
            self._doubt()
            return
        try:
            identity = self.load()
        except Error as error:
            self.refusals += 1
            log.error("certificates stay as they were: %s", error.message)  # noqa: TRY400
        else:
            self.renewals += 1
            log.info("certificates renewed: %s", identity)

    def look_now(self) -> None:
        """Have the files read again at once, though they may not have changed (SIGHUP)."""
        self._look.set()

    async def watch(self, threads: Executor, look_seconds: float = TLS_LOOK_SECONDS) -> None:
        """Look at the files every ``look_seconds``, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(look_seconds):
                    await self._look.wait()
            renew = partial(self.renew, anyway=self._look.is_set())
            self._look.clear()
            await loop.run_in_executor(threads, renew)
            if self.revocations is not self._judged:
                self._judged, self._rounds = self.revocations, 2
            if self._rounds and self.revoked is not None:
                self._rounds -= 1
                await self.revoked()

    def _stamp(self) -> Stamp:
        """Return a stamp that changes with the files; it follows links, by which some renew."""
        return tuple(_stamp(path) for path in self._paths())

    def _paths(self) -> list[Path]:
        named = [self._files.certificate, self._files.private_key]
        named += [door.check.authority for door in self._doors.values() if door.check is not None]
        return [path for path in [*named, *self._lists()] if path is not None]

    def _lists(self) -> list[Path]:
        """Return the file of revocation lists: all doors have the same."""
        checks = [door.check for door in self._doors.values() if door.check is not None]
        return [check.revocation for check in checks if check.revocation is not None][:1]


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
