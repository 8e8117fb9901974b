"""The files of users are looked at again and again, whatever goes wrong with one look (L8)."""

import logging
from types import SimpleNamespace

import pytest

from rowcast.core.errors import Code, Error
from rowcast.features.accounts.feature import Accounts
from serving import until


class Directory:
    """Fails at what the test says, the first time."""

    def __init__(self, at_look=None, at_tell=None):
        self.users = self
        self.failures = {"look": at_look, "tell": at_tell}
        self.done = []

    def begin(self, kernel):
        """Do nothing."""

    def _fail(self, what):
        self.done.append(what)
        failure, self.failures[what] = self.failures[what], None
        if failure is not None:
            raise failure

    async def look(self):
        self._fail("look")

    def notify(self):
        self._fail("tell")


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ({"at_look": Error(Code.BUSY, "no file")}, "users could not be looked at"),
        ({"at_look": PermissionError("not yours")}, "users could not be looked at"),
        ({"at_tell": RuntimeError("a bug")}, "could not be told to all"),
    ],
    ids=["an error", "a disk", "a bug of who is told"],
)
async def test_a_failure_is_logged_and_the_next_change_is_seen(failures, said, caplog):
    """Else a user who was removed later would keep all connections."""
    directory = Directory(**failures)
    feature = Accounts(directory, None)
    with caplog.at_level(logging.WARNING):
        feature.install(SimpleNamespace(rows=lambda *_: None))
        await until(lambda: len(directory.done) >= 4)
    await feature.stop()
    assert directory.done[:4] == ["look", "tell", "look", "tell"]
    assert said in caplog.text
