"""Building blocks of settings: the section, and validated types of values."""

import re
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from rowcast.core.limits import CONFIG_NUMBER_MAX, CONFIG_SECONDS_MAX
from rowcast.core.places import is_url, not_local


def not_a_switch(value: object) -> object:
    """Refuse a YAML boolean for a number."""
    if isinstance(value, bool):
        raise ValueError("should be a number")  # noqa: TRY004 - pydantic's protocol
    return value


def nothing(value: object) -> object:
    """Parse words for "none"; YAML reads ``off`` as a boolean."""
    said = value.strip().lower() if isinstance(value, str) else value
    return (
        None if said is None or said is False or said in ("none", "null", "off", "false") else value
    )


def host_name(value: str) -> str:
    """Refuse text that is not just a host name."""
    if not re.fullmatch(r"\*|\.?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", value):
        raise ValueError("should be a name such as rows.example, without scheme, port or path")
    return value


def network_name(value: str) -> str:
    """Refuse text that is neither an address nor a network."""
    try:
        return str(ip_network(value))
    except ValueError:
        raise ValueError(
            "should be an address or a network, such as 10.0.0.1 or 10.1.0.0/16"
        ) from None


def _named_place(value: object) -> object:
    """Refuse empty text, which would be the working directory."""
    if isinstance(value, str) and not value.strip():
        raise ValueError("should be a path")
    return value


def _no_place(value: object) -> object:
    """Return None for empty text too: a variable of the environment that is set to nothing."""
    return None if isinstance(value, str) and not value.strip() else nothing(value)


def local_place(path: Path) -> Path:
    """Refuse a URL, which would become a directory of that name."""
    if is_url(str(path)):
        raise ValueError(not_local(str(path)))
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError(f"begins with {path.parts[0]}, and there is no such user here") from None


Number = Annotated[int, BeforeValidator(not_a_switch)]
Seconds = Annotated[float, BeforeValidator(not_a_switch), Field(gt=0, le=CONFIG_SECONDS_MAX)]
SecondsOrZero = Annotated[float, BeforeValidator(not_a_switch), Field(ge=0, le=CONFIG_SECONDS_MAX)]
Count = Annotated[Number, Field(ge=0, le=CONFIG_NUMBER_MAX)]
CountFromOne = Annotated[Number, Field(ge=1, le=CONFIG_NUMBER_MAX)]
PortOrNone = Annotated[Annotated[Number, Field(ge=0, le=65_535)] | None, BeforeValidator(nothing)]
Place = Annotated[Path, BeforeValidator(_named_place), AfterValidator(local_place)]
PlaceOrNone = Annotated[Place | None, BeforeValidator(_no_place)]


class Section(BaseModel):
    """A section of settings; frozen, and unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
