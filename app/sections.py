"""What settings are made of: a section, and the kinds of numbers that stand in one."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _not_a_switch(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("should be a number")  # noqa: TRY004 - pydantic's protocol
    return value


Number = Annotated[int, BeforeValidator(_not_a_switch)]
Seconds = Annotated[float, BeforeValidator(_not_a_switch), Field(gt=0, allow_inf_nan=False)]
Count = Annotated[Number, Field(ge=0)]


class Section(BaseModel):
    """Settings that belong together; frozen, and closed to names that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
