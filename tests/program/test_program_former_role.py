"""What a process was is gone when it ends: a node of a cluster goes on in another role (K12)."""

import asyncio
import gc
import weakref
from contextlib import suppress

import pytest

from rowcast.log.log import fenced
from rowcast.mqtt.packets import Will
from serving import application, until
from talking import Closed, Mqtt

LASTING = {"session_expiry_interval": 3600}
LATE = Will("wills/late", b"gone", 1, False, {"will_delay_interval": 1800})


def begin(port):
    """Return a member of a group with something not done, and who has a will that waits for long.

    The second one is connected until the end.
    """
    client = Mqtt(port, client_id="m", properties=LASTING)
    client.subscribe("$share/g/jobs/#")
    client.publish("jobs/1", b"1", retain=False)
    return client, Mqtt(port, client_id="w", properties=LASTING, will=LATE)


async def former_role(folder):
    """Run a server until another node has appended; return what shows whether it is still there."""

    def refuse(_batch):
        raise fenced()

    async with application(folder) as running:
        client, other = await asyncio.to_thread(begin, running.mqtt_port)
        running.store.log.append = refuse
        with suppress(Closed, OSError):
            await asyncio.to_thread(client.publish, "jobs/1", b"2", retain=False)
        client.socket.close()
        found = tuple(map(weakref.ref, (running.kernel, running.broker, running.store)))
    other.socket.close()
    return found


@pytest.mark.heavy
async def test_nothing_of_a_role_stays_that_could_not_store_what_it_had(tmp_path):
    """Groups tried to be saved again for ever, and wills waited with all that they belong to."""
    found = await former_role(tmp_path)

    def gone() -> bool:
        gc.collect()
        return all(one() is None for one in found)

    await until(gone)
