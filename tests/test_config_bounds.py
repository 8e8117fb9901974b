"""Settings that are numbers: each has an upper bound, and none takes a YAML boolean (O1)."""

from collections.abc import Iterator
from typing import Annotated, get_args

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from rowcast.core.errors import Error
from rowcast.program.config import Config, load_config


def parts(annotation) -> Iterator[object]:
    """Yield what an annotation is made of."""
    yield annotation
    for part in get_args(annotation):
        yield from parts(part)


def numbers(model, prefix=""):
    """Yield the name of each setting that is a number, with the type of its values."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        for part in parts(field.annotation):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from numbers(part, f"{key}.")
            elif part in (int, float):
                yield key, Annotated[field.annotation, Field(), *field.metadata]


NUMBERS = dict(numbers(Config))


def test_numbers_in_lists_of_sections_are_found_too():
    assert {"sse.retry_ms", "topics.tables.keep_bytes", "gateway.brokers.port"} <= set(NUMBERS)


@pytest.mark.parametrize("value", [True, 10**30, float("inf"), float("nan")])
@pytest.mark.parametrize("name", NUMBERS)
def test_o1_a_number_is_bounded_and_no_boolean(name, value):
    """A boolean would be one second or one byte, and a number without end is a slip of the pen."""
    with pytest.raises(ValidationError):
        TypeAdapter(NUMBERS[name]).validate_python(value)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("store.query_timeout", "true", "line 1: store.query_timeout should be a number, not True"),
        ("mqtt.sys_interval", "on", "line 1: mqtt.sys_interval should be a number, not True"),
        ("sse.retry_ms", "86400001", "sse.retry_ms should be less than or equal to 86400000"),
        ("http.max_body_bytes", "2_000_000_000", "should be less than or equal to 1073741824"),
        ("retainer.msg_expiry_interval", "true", "should be a time such as 15m"),
        (
            "retainer.msg_expiry_interval",
            "10000000000000000",
            "should be less than or equal to 1000000000000000",
        ),
    ],
)
def test_o1_the_message_has_the_place_and_what_is_expected(tmp_path, name, value, says):
    file = tmp_path / "rowcast.yaml"
    file.write_text(f"{name}: {value}\n", encoding="utf-8")
    with pytest.raises(Error, match=name) as caught:
        load_config(file, {})
    assert says in caught.value.message
