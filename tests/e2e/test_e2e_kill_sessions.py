"""kill -9 of server and clients under durable sessions (D16, D27); `scripts/kill sessions`."""

import pytest
from kill_sessions import Pair, Play, run

from rowcast.mqtt.packets import Publish
from serving import PATIENCE_SECONDS


class Silent:
    def send(self, packet):
        pass


@pytest.mark.slow
@pytest.mark.timeout(10 * PATIENCE_SECONDS)
def test_five_kills_lose_nothing_and_double_nothing_of_qos_2(tmp_path):
    pairs = run(tmp_path, rounds=5, seed=1)
    assert all(pair.sent == pair.arrived == pair.acknowledged > 0 for pair in pairs)
    assert [0, 0] == [pair.doubled for pair in pairs if pair.qos == 2]


@pytest.mark.parametrize(
    ("qos", "numbers", "words"),
    [(2, (1, 1), "doubled"), (1, (1, 3), "lost"), (2, (2,), "lost")],
)
def test_a_fault_is_noticed(qos, numbers, words):
    pair = Pair("a", qos, retain=False)
    with pytest.raises(AssertionError, match=words):
        for packet_id, n in enumerate(numbers, 1):
            Play._take(pair, Silent(), Publish("a", b'{"n": %d}' % n, qos, packet_id=packet_id))
