"""Identity: creates the server's authenticator from the users file and settings."""

import asyncio
import shlex
import time
from collections.abc import Callable

from rowcast.auth.authenticator import Authenticator
from rowcast.auth.passwords import Run
from rowcast.auth.tokens import Tokens
from rowcast.auth.users_file import UsersFile
from rowcast.core.callers import Caller
from rowcast.features.accounts.accounts import Directory
from rowcast.program.config import Config


class Identity:
    """The authenticator of a server, and its users.

    The constructor reads the files, and raises INVALID for mistakes in them. ``run`` compares a
    password on another thread.
    """

    def __init__(
        self,
        config: Config,
        now: Callable[[], float] = time.time,
        run: Run = asyncio.to_thread,
    ) -> None:
        self.users = UsersFile(config.users_file)
        self.users.load()
        self._foreign = config.security.jwt.foreign()
        self._anonymous = config.security.anonymous
        given = config.security.users  # otherwise it is in the data directory
        place = str((config.users_file if given else config.data).resolve())
        self._where = f"{'--file' if given else '--data'} {shlex.quote(place)}"
        required = ("mqtt",) if config.mqtt.require_authentication else ()
        self.authenticator = Authenticator(
            config.security.anonymous,
            self.users,
            required,
            certificate_user=config.mqtt.mtls.user,
            tokens=Tokens(now, self._foreign),
            foreign_grants=config.security.jwt.grants,
            now=now,
            tries=config.mqtt.tries,
            run=run,
        )
        self.directory = Directory(self.users, self.authenticator, now)

    def lines(self) -> list[str]:
        """Return instructions to create the first user; empty if there are users."""
        if self.authenticator.in_force:
            return []
        ways = f"rowcast user add NAME --role admin {self._where}"
        if self._anonymous != "nobody":
            ways = f"setup code {self.directory.setup_code}, or: {ways}"
        return [f"  first administrator    {ways}"]

    async def person(self, name: str) -> Caller | None:
        """Return the caller for a user's name; None if there is no such user."""
        user = await self.users.find(name)
        return None if user is None else self.authenticator.as_caller(user, "http")

    @property
    def reload_keys(self) -> Callable[[], object] | None:
        """The function that reloads the keys of foreign issuers; None without such issuers."""
        return None if self._foreign is None else self._foreign.keys.look
