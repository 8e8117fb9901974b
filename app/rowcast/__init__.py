"""Rowcast: every row is a topic, every topic is a row.

Code in ``resources/`` imports from here, and from nowhere else: ``from rowcast import Resource``.
The names are those of ``rowcast.api``, which is imported when one is asked for: the command line
and the client need a version at most, and the kernel behind these names takes a while to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowcast.api import (
        DROP as DROP,
    )
    from rowcast.api import (
        Caller as Caller,
    )
    from rowcast.api import (
        Code as Code,
    )
    from rowcast.api import (
        Error as Error,
    )
    from rowcast.api import (
        Event as Event,
    )
    from rowcast.api import (
        Hook as Hook,
    )
    from rowcast.api import (
        Incoming as Incoming,
    )
    from rowcast.api import (
        LocalClient as LocalClient,
    )
    from rowcast.api import (
        Query as Query,
    )
    from rowcast.api import (
        Record as Record,
    )
    from rowcast.api import (
        Refusal as Refusal,
    )
    from rowcast.api import (
        Resource as Resource,
    )
    from rowcast.api import (
        Socket as Socket,
    )
    from rowcast.api import (
        Stream as Stream,
    )
    from rowcast.api import (
        SubscribedFilter as SubscribedFilter,
    )
    from rowcast.api import (
        Table as Table,
    )
    from rowcast.api import (
        Timer as Timer,
    )
    from rowcast.api import (
        TopicFilter as TopicFilter,
    )
    from rowcast.api import (
        computed as computed,
    )
    from rowcast.api import (
        every as every,
    )
    from rowcast.api import (
        get_table_name_for_topic as get_table_name_for_topic,
    )
    from rowcast.api import (
        hooks as hooks,
    )
    from rowcast.api import (
        on as on,
    )
    from rowcast.api import (
        server as server,
    )
    from rowcast.api import (
        table_name_for_topic as table_name_for_topic,
    )

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name.startswith("_"):
        raise AttributeError(name)
    api = import_module("rowcast.api")
    if name not in api.__all__:
        raise AttributeError(f"module 'rowcast' has no attribute {name!r}")
    return getattr(api, name)
