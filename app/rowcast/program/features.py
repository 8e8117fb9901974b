"""The features of a server: one line each, in the order in which they are installed.

The order matters where a comment says so. A feature that is switched off is None, and is on no
path.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Final, NamedTuple

from rowcast import __version__
from rowcast.features.accounts.feature import Accounts
from rowcast.features.alarms.feature import RecordAlarms
from rowcast.features.alarms.settings import AlarmSection
from rowcast.features.audit.feature import AuditLog
from rowcast.features.bridges.feature import Bridges
from rowcast.features.client_events.feature import ClientEventLog
from rowcast.features.compaction.feature import LogCompaction
from rowcast.features.computed.computation import Computation
from rowcast.features.computed.feature import ComputedByCode
from rowcast.features.deadlines.feature import RecordDeadlines
from rowcast.features.delayed.feature import DelayedPublish
from rowcast.features.derived.feature import DerivedTables
from rowcast.features.durable_streams.feature import StreamsOfTopics
from rowcast.features.durable_streams.settings import DurableStreamsSection
from rowcast.features.heartbeats.feature import heartbeats
from rowcast.features.heartbeats.settings import HeartbeatSettings
from rowcast.features.history.feature import History
from rowcast.features.hooks.feature import UserHooks
from rowcast.features.idempotency.feature import Idempotency
from rowcast.features.large_values.feature import LargeValueProcess
from rowcast.features.late_writes.feature import LateWrites
from rowcast.features.live_queries.feature import LiveQueriesOfTables
from rowcast.features.live_queries.settings import LiveQuerySection
from rowcast.features.metrics.feature import SystemMetrics
from rowcast.features.metrics.sys_tree import KEPT, TABLE
from rowcast.features.mirror.settings import MirrorSection
from rowcast.features.overload.feature import OverloadProtection
from rowcast.features.overload.settings import OverloadSection
from rowcast.features.replay.feature import ReplaysOfThePast
from rowcast.features.replay.settings import ReplaySection
from rowcast.features.results.feature import BulkResults
from rowcast.features.results.settings import ResultSection
from rowcast.features.results.staged_rows import UploadBounds
from rowcast.features.retained.feature import RetainedMessages
from rowcast.features.retention.feature import LogRetention
from rowcast.features.rights.feature import AccessRights
from rowcast.features.rollups.feature import Rollups
from rowcast.features.schedules.feature import ScheduledCalls
from rowcast.features.schedules.schedules import Schedule
from rowcast.features.schema_proposal.feature import SchemaProposal
from rowcast.features.shared_subscriptions.feature import SharedSubscriptions
from rowcast.features.sites.feature import Sites
from rowcast.features.slow_subscribers.feature import SlowSubscribers
from rowcast.features.slow_subscribers.settings import SlowSection
from rowcast.features.snapshots.feature import SnapshotExports
from rowcast.features.topic_statistics.feature import TopicStatistics
from rowcast.features.transactions.feature import Transactions
from rowcast.features.triggers.feature import TriggersOfEvents
from rowcast.features.triggers.settings import TriggerSection
from rowcast.features.triggers.trigger import Trigger
from rowcast.features.undeclared_topics.feature import UndeclaredTopics
from rowcast.features.unfit_values.feature import UnfitValues
from rowcast.features.websocket_wills.feature import WillsOfWebSockets
from rowcast.kernel.feature import Feature
from rowcast.program import exporting
from rowcast.program.archiving import archive_of
from rowcast.program.deriving import job_plan
from rowcast.program.parts import Parts
from rowcast.program.settings.gateway import plan_of, plans, synced
from rowcast.store.store import Keep


class Plug(NamedTuple):
    """A feature: the name of its folder, and its factory, which returns None if it is off."""

    name: str
    make: Callable[[Parts], Feature | None]


def _rights(it: Parts) -> Feature:
    return AccessRights(it.identity.person, [rule.rule() for rule in it.config.hooks.acl])


def _metrics(it: Parts) -> Feature:
    keep = it.config.topics.settings(Keep()).keeps.get(TABLE.name, KEPT)
    return SystemMetrics(it.store, it.schema.tables, it.config.mqtt.sys_interval, keep, it.now)


def _client_events(it: Parts) -> Feature:
    events = it.config.client_events
    return ClientEventLog(events.keep, __version__, enabled=events.enabled)


def _retained(it: Parts) -> Feature:
    settings = it.config.retainer
    return RetainedMessages(
        settings.rules,
        it.store,
        page_records=settings.batch_read_number,
        delivery_rate=settings.delivery_rate,
    )


def _retention(it: Parts) -> Feature:
    kept, cleared = it.config.history, it.config.retainer.msg_clear_interval
    search_seconds = min(kept.sweep_seconds, cleared or kept.sweep_seconds)
    return LogRetention(it.schema.tables, kept.keep, kept.sweep_seconds, search_seconds)


def _snapshots(it: Parts) -> Feature:
    settings = it.config.snapshots
    snapshots = exporting.store_of(settings.place(it.config.data))
    due = exporting.orders_due(settings)
    roles = exporting.audience_stores(it.config)
    command = partial(exporting.export_command, it.config)
    return SnapshotExports(snapshots, command, due, roles)


def _results(it: Parts) -> Feature:
    section = it.config.of(ResultSection)
    bounds = UploadBounds(size_bytes=section.bytes_max, changes=section.changes_max)
    return BulkResults(it.facts, bounds, str(it.config.data))


def _derived(it: Parts) -> Feature:
    return DerivedTables(it.schema.tables, job_plan(it.config, it.schema.tables))


def _mirror(it: Parts) -> Feature | None:
    settings = it.config.of(MirrorSection)
    if not settings.url:
        return None
    from rowcast.features.mirror.feature import MirrorOfTables  # noqa: PLC0415 - of an extra

    return MirrorOfTables(it.schema.tables, settings)


def _computed(it: Parts) -> Feature:
    return ComputedByCode(it.schema.tables, it.hooks.collected(Computation))


def _live_queries(it: Parts) -> Feature:
    return LiveQueriesOfTables(it.config.of(LiveQuerySection), it.schema.queries)


def _triggers(it: Parts) -> Feature:
    return TriggersOfEvents(it.hooks.collected(Trigger), it.config.of(TriggerSection))


def _undeclared_topics(it: Parts) -> Feature:
    topics = it.config.topics
    settings = topics.settings(it.config.history.keep)
    return UndeclaredTopics(it.store, settings, logged=topics.undeclared == "table")


FEATURES: Final = (
    Plug("rights", _rights),  # its rules before wills
    Plug("computed", _computed),  # before anything reads records
    Plug("archive", archive_of),  # before anything reads what the log had trimmed
    Plug("compaction", lambda it: LogCompaction(it.store, it.schema.tables)),
    Plug("hooks", lambda it: UserHooks(it.hooks)),  # asked before others see a write
    # before topic_statistics, which samples messages where no topic table logs them
    Plug("undeclared_topics", _undeclared_topics),
    Plug("history", lambda _: History()),
    Plug("delayed", lambda _: DelayedPublish()),
    Plug("idempotency", lambda it: Idempotency(it.config.http.idempotency_seconds)),
    Plug("durable_streams", lambda it: StreamsOfTopics(it.config.of(DurableStreamsSection))),
    Plug("late_writes", lambda _: LateWrites()),
    # after idempotency and late_writes, whose decisions it compares
    Plug("sites", lambda it: Sites(synced(it.config.gateway))),
    Plug("large_values", lambda parts: LargeValueProcess(processes=parts.processes)),
    Plug("results", _results),
    Plug("transactions", lambda _: Transactions()),
    Plug("unfit_values", lambda _: UnfitValues()),
    Plug("retained", _retained),
    Plug("live_queries", _live_queries),
    Plug("replay", lambda it: ReplaysOfThePast(it.config.of(ReplaySection))),
    Plug("shared_subscriptions", lambda _: SharedSubscriptions()),
    Plug("websocket_wills", lambda _: WillsOfWebSockets()),
    Plug("accounts", lambda it: Accounts(it.identity.directory, it.identity.reload_keys)),
    Plug("audit", lambda _: AuditLog()),
    Plug("metrics", _metrics),
    Plug("topic_statistics", lambda _: TopicStatistics()),
    Plug("client_events", _client_events),
    Plug("slow_subscribers", lambda it: SlowSubscribers(it.config.of(SlowSection).settings)),
    Plug("schema_proposal", lambda _: SchemaProposal()),
    Plug("deadlines", lambda it: RecordDeadlines(it.schema.tables)),
    Plug("alarms", lambda it: RecordAlarms(it.schema.tables, it.config.of(AlarmSection))),
    Plug("rollups", lambda it: Rollups(it.schema.tables)),
    Plug("derived", _derived),
    Plug("snapshots", _snapshots),
    Plug("mirror", _mirror),
    Plug("bridges", lambda it: Bridges(plans(it.config.gateway), plan_of)),
    Plug("schedules", lambda it: ScheduledCalls(it.hooks.collected(Schedule))),
    Plug("triggers", _triggers),
    Plug("heartbeats", lambda it: heartbeats(it.config.of(HeartbeatSettings))),
    Plug("overload", lambda it: OverloadProtection(it.config.of(OverloadSection).watermarks)),
    Plug("retention", _retention),
)


def plugs_of(names: Collection[str]) -> list[Plug]:
    """Return the features with these names, in their order."""
    return list(filter(lambda plug: plug.name in names, FEATURES))
