"""Wiring of who it is: the users' file, tokens, and the ending of what is live when they change."""

import asyncio
import logging
import shlex
import time
from collections.abc import Callable

from rowcast.auth.authenticator import Authenticator
from rowcast.auth.tokens import Tokens
from rowcast.auth.users_file import UsersFile
from rowcast.core.callers import Caller
from rowcast.core.entry_limits import USERS_FILE_LOOK_SECONDS
from rowcast.core.errors import Error
from rowcast.features.accounts.accounts import ROLES, USERS, Directory
from rowcast.features.accounts.dynsec import PATH as CONTROL
from rowcast.features.accounts.dynsec import control_rows
from rowcast.features.accounts.user_resources import role_rows, user_rows
from rowcast.kernel.kernel import Engine
from rowcast.program.config import Config

log = logging.getLogger("rowcast.auth")


class Identity:
    """The one authenticator of a server, and where its users are.

    Making it reads the files, and raises INVALID for what is wrong in them.
    """

    def __init__(self, config: Config, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self.users = UsersFile(config.users_file)
        self.users.load()
        self._foreign = config.security.jwt.foreign()
        self._anonymous = config.security.anonymous
        given = config.security.users  # else it is in the data directory
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
        )
        self.directory = Directory(self.users, self.authenticator, now)

    def begin(self, engine: Engine) -> None:
        """Let the engine ask who may stay, and show users and roles."""
        self.directory.begin(engine)
        engine.rows(USERS, user_rows(self.directory))
        engine.rows(ROLES, role_rows(self.directory))
        engine.rows(CONTROL, control_rows())

    def lines(self) -> list[str]:
        """Return how the first user is made, for the person who started it; later nothing."""
        if self.authenticator.in_force:
            return []
        ways = f"rowcast user add NAME --role admin {self._where}"
        if self._anonymous != "nobody":
            ways = f"setup code {self.directory.setup_code}, or: {ways}"
        return [f"  first administrator    {ways}"]

    async def person(self, name: str) -> Caller | None:
        """Return a user as the caller that it would be; None if there is none of that name."""
        user = await self.users.find(name)
        return None if user is None else self.authenticator.as_caller(user, "http")

    async def look(self) -> None:
        """Look at the files again and again, and tell the engine of each change; never returns."""
        while True:
            await asyncio.sleep(USERS_FILE_LOOK_SECONDS)
            try:
                await self.users.look()
                if self._foreign is not None:
                    await asyncio.to_thread(self._foreign.keys.look)
            except (Error, OSError) as error:
                log.warning("users could not be looked at: %s", error)
            self.directory.tell()
