"""What a codec returns takes no more memory than its bytes: records and queues keep it."""

import sys
import tracemalloc

import pytest

from rowcast.codecs import CBOR, JSON, MSGPACK, codec_for, json_text
from rowcast.codecs.plain import encode_plain

KEPT = 200
VALUES = {"short": {"id": "1", "n": 1}, "long": {"text": "x" * 3_000}}
WRITERS = {
    "JSON": codec_for(JSON).encode,
    "CBOR": codec_for(CBOR).encode,
    "MessagePack": codec_for(MSGPACK).encode,
    "plain JSON": encode_plain,
    "JSON again": lambda value: json_text.encode_again(value, b"{}"),
    "text": json_text.text,
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_encoded_values_take_the_memory_of_their_bytes(write, value):
    write(value)  # what it makes once is not of a value
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = [write(value) for _ in range(KEPT)]
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken < 4 * (sum(map(sys.getsizeof, kept)) + sys.getsizeof(kept))
