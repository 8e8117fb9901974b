"""Live queries of real servers whose readers got other rights while no server ran (M3, M9)."""

from base64 import b64encode

import pytest

from serving import Server, rowcast
from talking import Events

OPEN = "type Dog @table @export { id: ID @primaryKey n: Int }"
LIMITED = OPEN.replace("@export", '@export @auth(read: "n > 2")')
RULE = {
    "filter": "Dog/#",
    "effect": "allow",
    "roles": ["clerk"],
    "actions": ["read"],
    "where": "n > 2",
}
ROOT = ("root", "pencil")
SECRET = {"Authorization": f"Basic {b64encode(b'ann:pencil').decode()}"}


def user(folder, name, *options):
    done = rowcast("user", "add", name, *options, folder=folder, stdin="pencil\n")
    assert 0 == done.returncode, done.stderr


def told(server, since=""):
    """Return what a reader is told that has missed one write, and its cursor then."""
    server.request("PUT", "/Dog/last", auth=ROOT, json={"n": 3})
    with Events(server, "/Dog/?n=gt=0", since, **SECRET) as events:
        found = [events.next()]
        while found[0].kind in {"reset", "snapshot"} and found[-1].kind != "current":
            found.append(events.next())
    return [(event.kind, event.fields.get("topic")) for event in found], found[-1].id


@pytest.mark.parametrize(
    ("role", "before", "role_then", "after"),
    [("clerk", OPEN, "vet", OPEN), ("vet", LIMITED, "vet", OPEN), ("vet", OPEN, "vet", OPEN)],
    ids=["user", "schema", "nothing"],
)
def test_a_reader_returns_to_what_it_may_read(tmp_path, role, before, role_then, after):
    """M3, M9: its role is another, or the schema; it goes on where nothing has changed."""
    user(tmp_path, "root", "--role", "admin")
    user(tmp_path, "ann", "--role", role)
    with Server(tmp_path, before) as server:
        assert 201 == server.request("PUT", "/$SYS/rules/1", auth=ROOT, json=RULE).status_code
        for n in (1, 9):
            assert 201 == server.request("PUT", f"/Dog/{n}", auth=ROOT, json={"n": n}).status_code
        events, since = told(server)
        assert ("snapshot", "Dog/9") in events
    if role_then != role:
        user(tmp_path, "ann", "--role", role_then)
    with Server(tmp_path, after) as server:
        events, since = told(server, since)
        topics = [topic for kind, topic in events if kind == "snapshot"]
        changed = (role, before) != (role_then, after)
        assert topics == (["Dog/1", "Dog/9", "Dog/last"] if changed else [])
        events, _ = told(server, since)
        assert [("change", "Dog/last")] == events
