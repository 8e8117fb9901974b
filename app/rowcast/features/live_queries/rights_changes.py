"""Since when users may read what they may read: as far back as a live query can be continued.

A reader that returns with a cursor has the records that its user could read at that time. If that
has changed since, no event of the log tells which records it lacks, so it begins anew. Changes are
remembered over restarts. What roles a token of another issuer brings is not known here.

Rules, users and the schema can be changed while no server runs, and a server can end between such a
change and the note of it. So a fingerprint of all of it is stored too; if it is another one at the
start, everybody's rights count as changed.
"""

from collections.abc import Iterable
from typing import Final

from rowcast.core.facts import Change
from rowcast.core.query_limits import RIGHTS_CHANGES_USERS_MAX

OWNER: Final = "live_queries/rights"
FINGERPRINT: Final = "live_queries/fingerprint"
"""The owner of the fingerprint."""
_ALL: Final = ""
"""In place of a user's name: a rule or a role concerns anybody."""


class RightsChanges:
    """The position of the last change for each user; those of ``users_max`` are told apart."""

    def __init__(self, users_max: int = RIGHTS_CHANGES_USERS_MAX) -> None:
        self._users_max = users_max
        self._since: dict[str, int] = {}
        self._fingerprint = ""

    def since(self, user: str) -> int:
        """Return the position from which on a user has its rights."""
        return max(self._since.get(_ALL, 0), self._since.get(user, 0))

    def restore(self, facts: Iterable[tuple[str, str, bytes]]) -> None:
        """Take in stored changes."""
        self._since = {name: int(value) for _, name, value in facts}

    def restore_fingerprint(self, facts: Iterable[tuple[str, str, bytes]]) -> None:
        """Take in the stored fingerprint."""
        self._fingerprint = "".join(value.decode() for _, _, value in facts)

    def compare(self, fingerprint: str, position: int) -> list[Change]:
        """Compare the fingerprint of a start with the stored one; return what is to be stored."""
        changed = self._fingerprint not in ("", fingerprint)
        return [*(self.note(_ALL, position) if changed else ()), *self.renew(fingerprint)]

    def renew(self, fingerprint: str) -> list[Change]:
        """Take in the fingerprint of now; return what is to be stored."""
        if fingerprint == self._fingerprint:
            return []
        self._fingerprint = fingerprint
        return [Change(FINGERPRINT, "", fingerprint.encode())]

    def note(self, user: str, position: int) -> list[Change]:
        """Note a change, of all users without a name; return what is to be stored.

        It counts for cursors up to ``position``: nobody knows on which side of it one is.
        """
        gone: list[str] = []
        if user == _ALL or len(self._since) > self._users_max:
            user, gone = _ALL, [name for name in self._since if name != _ALL]
            self._since = {}
        self._since[user] = position + 1
        changes = [Change(OWNER, name, None) for name in gone]
        return [*changes, Change(OWNER, user, str(position + 1).encode())]
