"""A server that cannot open its store leaves nothing open, as a node that tries again needs it."""

import pytest

from rowcast.core.errors import Code, Error
from serving import application


async def test_a_store_that_did_not_open_is_closed(tmp_path, monkeypatch):
    """K12: what an engine without a majority does to the tables of a node that is to number."""

    def silent(*_):
        raise Error(Code.BUSY, "no answer")

    with monkeypatch.context() as patch:
        patch.setattr("rowcast.journal.journaled_store.catch_up", silent)
        with pytest.raises(Error, match="no answer"):
            async with application(tmp_path):
                pass
    async with application(tmp_path) as running:
        assert running.http_port
