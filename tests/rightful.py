"""A kernel whose table Dog has rights, and people with roles, for tests of rights."""

import json

from build import Server, turns
from rowcast.core.callers import ALL, SERVER, Caller, Grants
from rowcast.core.events import DELETE, PATCH, PUT, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.rights.rule_rows import PATH
from rowcast.schema import parse_schema
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

SCHEMA = """
type Dog @table @export
  @auth(read: "owner == $user")
  @auth(roles: ["vet"], mask: {phone: "last4"}) {
  id: ID @primaryKey
  owner: String
  name: String
  phone: String
  weight: Int @auth(roles: ["vet"])
}
type Cat @table @export { id: ID @primaryKey name: String }
"""
BOTH = Grants(read=True, write=True)


def person(name, *roles, grants=BOTH, door="http", **claims):
    return Caller(name, grants, door, roles=frozenset(roles), claims=claims)


ANN, BEN, VET = person("ann"), person("ben"), person("vi", "vet")
ROOT = person("root", "admin", grants=ALL)


class Rightful(Server):
    """A server with rights; rules are rows."""

    def __init__(self, schema=SCHEMA, **options):
        super().__init__(parse_schema(schema).tables, **options)
        self.rights = self.kernel.rights

    async def write(self, topic, value, caller=SERVER, kind=PUT, condition=None):
        payload = b"" if kind == DELETE else json.dumps(value).encode()
        media = None if kind == DELETE else "application/json"
        event = Event(topic, kind, payload, media, 1, kind in {PUT, PATCH, DELETE})
        return await self.kernel.write(event, caller, condition)

    async def rule(self, name, caller=ROOT, **facts):
        return await self.write(f"{PATH}/{name}", facts, caller)

    async def value(self, topic, caller):
        return self.kernel.transcoder.value(await self.kernel.read(topic, caller))

    def watch(self, text, caller, since=None, current=False):
        reader = Subscription(self.reader)
        interest = SubscribedFilter(TopicFilter(text), marks=False)
        self.kernel.watch(reader, interest, caller, since, current=current)
        return reader

    async def heard(self, reader):
        found = []
        for _ in range(8):
            found += [event for event, _ in reader.take(1000) if event.topic]
            await turns(3)
        return [(event.kind, event.topic, event.payload) for event in found]
