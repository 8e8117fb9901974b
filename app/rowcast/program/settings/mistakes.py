"""Error messages for invalid settings, with advice."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from rowcast.core.limits import CONFIG_SHOWN_CHARS_MAX
from rowcast.core.suggestions import did_you_mean

_SECTIONS: Final = ("gateway", "brokers")
"""A list of sections that contain passwords: messages only show single members."""

_SHOWN_NEVER: Final = frozenset({"password", "host"})
"""Members never shown; a URL given as a host may contain the password."""

_SHAPES: Final = {
    "tuple_type": "should be a list",
    "model_type": "should be a section, names with a value each",
}


def mistake(details: ErrorDetails, root: type[BaseModel], *, secret: bool) -> str:
    """Return the message after the name of the setting; never contains a password."""
    loc = details["loc"]
    if details["type"] == "missing":
        return "is missing"
    if details["type"] == "extra_forbidden":
        names = _names(root, loc[:-1])
        near = did_you_mean(str(loc[-1]), names)
        return f"is not a setting{near or '; there are ' + ', '.join(names)}"
    message = _SHAPES.get(details["type"]) or details["msg"].removeprefix("Value error, ")
    message = message.removeprefix("Input ").partition(", unable to")[0]
    if details["type"] == "value_error" and _is_named(details["input"], message):
        return message
    if secret or _hides(loc, details["input"]):
        return message
    return f"{message}, not {_shown(details['input'])}"


def _shown(given: object) -> str:
    """Return a value as it was written, shortened if long."""
    try:
        text = repr(given)
    except ValueError:  # an integer of thousands of digits
        return "a number of so many digits"
    most = CONFIG_SHOWN_CHARS_MAX
    return text if len(text) <= most else f"{text[:most]}..."


def _is_named(given: object, message: str) -> bool:
    """Whether one of our own messages already quotes the invalid part of a value."""
    return isinstance(given, dict | list) or repr(given) in message


def _hides(loc: Sequence[int | str], given: object) -> bool:
    if tuple(loc[:2]) != _SECTIONS:
        return False
    return (
        len(loc) <= len(_SECTIONS) + 1 or loc[-1] in _SHOWN_NEVER or isinstance(given, dict | list)
    )


def _names(model: type[BaseModel], loc: Sequence[int | str]) -> list[str]:
    """Return the names of a section's settings, by its path."""
    for part in loc:
        for name, field in model.model_fields.items():  # neither an index nor a key
            if part in (name, field.alias):
                model = next(_models(field.annotation), model)
                break
    return [field.alias or name for name, field in model.model_fields.items()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the sections in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
