"""The allowed methods of a path, for OPTIONS and Allow."""

from collections.abc import Sequence
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.routes.registry import Route

RECORD: Final = ("GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS")
COLLECTION: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
READ_ONLY: Final = ("GET", "HEAD", "OPTIONS")
_OF_VERB: Final = (
    ("get", ("GET", "HEAD")),
    ("put", ("PUT",)),
    ("patch", ("PATCH",)),
    ("delete", ("DELETE",)),
    ("post", ("POST",)),
    ("publish", ("POST",)),
)


def is_collection(route: Route) -> bool:
    """Whether a route ends in the slash of a collection, or of a part of one."""
    return route.shape is not None and (not route.topic or route.topic.endswith("/"))


def writes_by_query(route: Route, method: str) -> bool:
    """Whether a method writes what a query selects there: PATCH or DELETE of a collection (B12)."""
    return (
        method in {"PATCH", "DELETE"}
        and is_collection(route)
        and not route.record_id
        and not route.overrides(method.lower())
    )


def is_description(route: Route) -> bool:
    """Whether a route is a table itself, without the slash."""
    return (
        route.shape is not None
        and bool(route.topic)
        and not route.record_id
        and (not route.topic.endswith("/"))
    )


def offered(route: Route) -> Sequence[str]:
    """Return the methods of a route, besides POST with ``retain=false``."""
    entry = route.entry
    if route.view is not None:
        return READ_ONLY
    own = [
        method
        for verb, methods in _OF_VERB
        if entry is not None and verb in entry.overrides
        for method in methods
    ]
    if not route.topic and entry is None:
        usual: Sequence[str] = READ_ONLY
    elif is_description(route) or (is_collection(route) and route.record_id):
        usual = READ_ONLY
    elif is_collection(route):
        usual = COLLECTION
    elif entry is None or entry.shape is not None:
        usual = RECORD
    else:
        usual = ("OPTIONS",)
    return list(dict.fromkeys((*own, *usual)))


def takes(route: Route, method: str) -> bool:
    """Whether a route supports a method; details of GET and POST are checked later."""
    if route.view is not None:
        return method in READ_ONLY
    if method not in {"PUT", "PATCH", "DELETE"}:
        return True
    entry = route.entry
    if route.topic and (entry is None or (entry.shape is not None and route.record_id)):
        return entry is None or not route.topic.endswith("/")
    return method in offered(route)


def not_offered(route: Route, method: str, hint: str = "") -> Error:
    """Return the Error for an unsupported method."""
    where = f"{'/' + route.topic!r}"
    if route.view is not None:
        hint = f"rows cannot be written: {route.view.hint()}"
    elif method in {"PUT", "PATCH", "DELETE"} and route.shape is not None and not route.record_id:
        hint = hint or f"name a record, such as '/{route.topic.rstrip('/')}/1'"
    return Error(
        Code.NOT_ALLOWED,
        f"{method[:20]} is not offered at {where}{hint and '; '}{hint}",
        allow=list(offered(route)),
    )
