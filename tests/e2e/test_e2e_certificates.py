"""A client's certificate while there are no users: a name, and no more (L3, P3)."""

import json

from secured import secured

from rowcast.features.rights.rights import ADMINISTERED, PRIVATE
from rowcast.mqtt.packets import Publish, Subscribe, Subscription

ADMINISTRATIVE = [f"{place}x" for place in ADMINISTERED] + ["$SYS/delayed/x", "$AUDIT/x"]


async def test_p3_without_users_a_certificate_writes_data_and_administers_nothing(tmp_path):
    """It makes no user, role, rule or bridge, and ends nothing; from this machine too."""
    async with secured(tmp_path, **{"mqtt.mTLS.required": "true"}) as server:
        shown = server.authority.issue("x", common_name="stranger")
        client = await server.mqtt(server.authority.client(shown))
        client.send(Publish("Dog/1", b'{"name": "Rex"}', 1, True, False, 7))
        assert 0 == (await client.hear()).reason
        user = json.dumps({"password": "a long one", "roles": ["admin"]}).encode()
        for number, topic in enumerate(ADMINISTRATIVE, 8):
            client.send(Publish(topic, user, 1, False, False, number))
            assert (topic, 0x87) == (topic, (await client.hear()).reason)
        assert not server.program.identity.authenticator.in_force
        await client.close()


async def test_p3_without_users_a_certificate_reads_nothing_of_administrators(tmp_path):
    """Users, roles, rules and the audit."""
    async with secured(tmp_path, **{"mqtt.mTLS.required": "true"}) as server:
        shown = server.authority.issue("x", common_name="stranger")
        client = await server.mqtt(server.authority.client(shown))
        asked = tuple(Subscription(f"{place}/#") for place in PRIVATE)
        client.send(Subscribe(7, asked))
        assert [0x87] * len(asked) == list((await client.hear()).reasons)
        await client.close()
