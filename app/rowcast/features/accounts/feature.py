"""The feature: users and roles as rows, and Mosquitto's commands for them (L10)."""

import asyncio
import logging
from collections.abc import Callable

from rowcast.core.authentication_limits import USERS_FILE_LOOK_SECONDS
from rowcast.core.errors import Error
from rowcast.features.accounts.accounts import ROLES, USERS, Directory
from rowcast.features.accounts.dynsec import PATH as CONTROL
from rowcast.features.accounts.dynsec import control_rows
from rowcast.features.accounts.user_resources import role_rows, user_rows
from rowcast.kernel.feature import Background, Feature
from rowcast.kernel.kernel import Kernel

log = logging.getLogger("rowcast.auth")


class Accounts(Feature):
    """The users of one server; ``reload_keys`` reloads the keys of foreign issuers (blocks)."""

    def __init__(self, directory: Directory, reload_keys: Callable[[], object] | None) -> None:
        self._directory = directory
        self._reload_keys = reload_keys
        self._background = Background()

    def install(self, kernel: Kernel) -> None:
        """Register reauthorization, and the rows of users and roles."""
        self._directory.begin(kernel)
        kernel.rows(USERS, user_rows(self._directory))
        kernel.rows(ROLES, role_rows(self._directory))
        kernel.rows(CONTROL, control_rows())
        self._background.run(self._look())

    async def stop(self) -> None:
        """Stop watching the files."""
        await self._background.stop()

    async def _look(self) -> None:
        """Watch the files, and notify the kernel of each change; never returns."""
        while True:
            await asyncio.sleep(USERS_FILE_LOOK_SECONDS)
            try:
                await self._directory.users.look()
                if self._reload_keys is not None:
                    await asyncio.to_thread(self._reload_keys)
            except (Error, OSError) as error:
                log.warning("users could not be looked at: %s", error)
            try:
                self._directory.notify()
            except Exception:  # the next change is told all the same
                log.exception("a change of users could not be told to all")
