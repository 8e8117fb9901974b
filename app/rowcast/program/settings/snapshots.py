"""Settings of snapshots: directory, schedule and retention."""

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from rowcast.core.durations import parse_duration
from rowcast.core.places import is_object_store, is_url, not_local
from rowcast.settings.sections import Count, PlaceOrNone, Section, nothing


def _period(value: str | None) -> str | None:
    if value is not None and not parse_duration(value):
        raise ValueError("should be a time such as 1h, 30m or 45s, or `off`")
    return value


PeriodOrNone = Annotated[str | None, AfterValidator(_period), BeforeValidator(nothing)]


def _store(value: str | None) -> str | None:
    if value is not None and not is_object_store(value):
        raise ValueError("should be a place in an object store, such as s3://bucket/prefix")
    if value is not None and not value.partition("//")[2].partition("/")[0]:
        raise ValueError("names no bucket; write s3://bucket/prefix")
    return value


StoreOrNone = Annotated[str | None, AfterValidator(_store), BeforeValidator(nothing)]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _catalog(value: str | None) -> str | None:
    if value is not None and not frozenset(_names(value)) <= {"delta", "iceberg"}:
        raise ValueError("should be delta, iceberg, or delta,iceberg")
    return value


def _places(value: Mapping[str, str]) -> Mapping[str, str]:
    for role, place in value.items():
        if not role or not place:
            raise ValueError("should name a role and its directory, such as {clerk: /for/clerks}")
        if is_object_store(place):
            _store(place)
        elif is_url(place):
            raise ValueError(not_local(place))
    return value


CatalogOrNone = Annotated[str | None, AfterValidator(_catalog), BeforeValidator(nothing)]


class SnapshotSettings(Section):
    """Snapshots of all tables as Parquet files."""

    directory: PlaceOrNone = Field(
        default=None,
        description="Directory of snapshots; by default `snapshots` in the data directory.",
    )
    location: StoreOrNone = Field(
        default=None,
        description="Place of snapshots in an object store, such as `s3://bucket/prefix`, "
        "instead of a directory.",
    )
    audiences: Annotated[Mapping[str, str], AfterValidator(_places)] = Field(
        default={},
        description="Roles, each with a directory or place of its own, into which what the role "
        "may read is exported by the same schedule: `{clerk: /for/clerks}`.",
    )
    catalog: CatalogOrNone = Field(
        default=None,
        description="Format of open tables of which each snapshot becomes a version: `delta`, "
        "`iceberg`, or both, separated by a comma.",
    )
    every: PeriodOrNone = Field(
        default=None, description="Interval of snapshots, such as `1h`; `off` makes none."
    )
    changes: PeriodOrNone = Field(
        default=None,
        description="Interval of increments, such as `1m`; `off` makes none.",
    )
    keep_changes: PeriodOrNone = Field(
        default=None, description="Age limit of increments, such as `30d`; `off` keeps all."
    )
    keep_small: PeriodOrNone = Field(
        default=None,
        description="Age up to which an increment stays in `changes` although it has been merged, "
        "such as `7d`, for streams over files; `off`: ten minutes after it was merged.",
    )
    keep: Count = Field(default=0, description="Number of newest snapshots to keep; 0 keeps all.")

    keep_for: PeriodOrNone = Field(
        default=None,
        description="Age limit of snapshots, such as `7d`; `off` means no limit.",
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.location and self.directory:
            raise ValueError("set directory or location, not both")
        if self.keep_changes and seconds_of(self.keep_small) > seconds_of(self.keep_changes):
            raise ValueError("keep_small should be no longer than keep_changes")
        own = self.location or (str(self.directory) if self.directory else None)
        known = [*([("all", own)] if own else []), *self.audiences.items()]
        for (one, place), (other, inner) in combinations(known, 2):
            if _within(place, inner) or _within(inner, place):
                raise ValueError(
                    f"audiences: {one} and {other} should have places apart, since who may read a "
                    f"directory may read what is below it; {place} and {inner} are not"
                )
        return self

    @property
    def catalogs(self) -> tuple[str, ...]:
        """The formats of open tables."""
        return tuple(_names(self.catalog or ""))

    def place(self, data: Path, audience: str = "") -> str:
        """Return the directory or URL of those for a role, or else of all.

        ``data`` is the server's data directory.
        """
        if audience:
            place = self.audiences[audience]
            return place if is_object_store(place) else str(Path(place).expanduser().absolute())
        return self.location or str(self.directory or data / "snapshots")


def _within(place: str, other: str) -> bool:
    """Whether a place is another one, or below it."""
    if is_object_store(place) or is_object_store(other):
        return f"{place.rstrip('/')}/".startswith(f"{other.rstrip('/')}/")
    paths = [Path(text).expanduser().absolute() for text in (place, other)]
    return paths[0].is_relative_to(paths[1])


def seconds_of(period: str | None) -> float:
    """Return a period in seconds; 0 for none."""
    return (parse_duration(period) or 0) if period else 0
