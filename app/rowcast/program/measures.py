"""What is measured: brings the metrics together with those who count, none of which knows them."""

from collections.abc import Sequence
from random import random

from rowcast.core.errors import Error
from rowcast.core.events import DELETE, RETAINED
from rowcast.core.tables import Table
from rowcast.core.topic_tables import TopicTable
from rowcast.doors.mqtt.broker import Broker
from rowcast.doors.mqtt.client import Client
from rowcast.features.audit.audit import TABLE as AUDIT
from rowcast.features.audit.refusals import TABLE as REFUSALS
from rowcast.features.client_events.client_events import TABLE as EVENTS
from rowcast.features.metrics.metrics import Metrics
from rowcast.features.metrics.sys_tree import TABLE
from rowcast.features.topic_statistics.topic_stats import TopicStats
from rowcast.features.undeclared_topics.recent_topics import SeenTopics
from rowcast.features.undeclared_topics.topic_table_rows import PATH as TABLES
from rowcast.features.undeclared_topics.topic_tables import TopicTables
from rowcast.kernel.kernel import Engine
from rowcast.kernel.last_write_wins import is_stamped
from rowcast.kernel.watch.gaps import Why
from rowcast.kernel.write import Outcome, Receipt
from rowcast.mqtt.packets import Publish
from rowcast.store.store import Store


def count_writes(engine: Engine, seen: SeenTopics, metrics: Metrics, stats: TopicStats) -> None:
    """Have the metrics hear of records that come and go, and the statistics of all that is kept."""
    seen.stats = stats
    metrics.surveys.append(stats.update)

    def told(outcomes: Sequence[Outcome]) -> None:
        done = [item for item in outcomes if type(item) is Receipt and not item.late]
        if len(done) < len(outcomes):
            metrics.holding.late += sum(
                type(item) is Receipt and item.late > 0 and is_stamped(item.event)
                for item in outcomes
            )
        stats.written([receipt.event for receipt in done])
        for receipt in done:
            kind = receipt.event.kind
            if kind in RETAINED and (kind == DELETE) == receipt.existed:
                if receipt.existed:
                    metrics.on_retained_message_removed(receipt.event.topic)
                else:
                    metrics.on_retained_message_added(receipt.event.topic)

    engine.committer.told = told


def watch_broker(broker: Broker, metrics: Metrics) -> None:
    """Let the metrics look at what the MQTT edge counts."""
    tally, engine = broker.tally, broker.engine

    def look() -> None:
        traffic, wire = tally.look(), metrics.wire
        wire.bytes_received, wire.bytes_sent = traffic.bytes_in, traffic.bytes_out
        wire.packets_received, wire.packets_sent = traffic.packets_in, traffic.packets_out
        wire.connections, wire.connects = broker.connections, broker.connects
        metrics.on_publish_received(
            traffic.publishes_in - metrics.publishes_received,
            traffic.payload_in - metrics.publish_bytes_received,
        )
        metrics.on_publish_sent(
            traffic.publishes_out - metrics.publishes_sent,
            traffic.payload_out - metrics.publish_bytes_sent,
        )
        holding = metrics.holding
        holding.sessions, holding.sessions_expired = len(broker.sessions), broker.ended
        slow = engine.reader.account.counts.get(Why.SLOW, 0)
        late = engine.reader.slow
        if late is not None:
            holding.slow, holding.slow_ever = len(late), late.total
        holding.dropped = slow + broker.dropped_waiting
        queue = engine.reader.queue
        holding.queries_timed_out, holding.queries_abandoned = queue.timed_out, queue.abandoned

    def survey() -> None:
        holding = metrics.holding
        holding.queries_waiting = engine.reader.queue.waiting
        holding.in_flight = sum(len(session.window) for session in broker.sessions)

    metrics.look = look
    metrics.surveys.append(survey)


def show_tables(engine: Engine, tables: TopicTables) -> None:
    """Have those who watch the topic tables hear of new ones and of dropped ones (E15)."""
    begun, ended = tables.on_begin, tables.on_end

    def begin(table: TopicTable) -> None:
        if begun is not None:
            begun(table)
        engine.live.changed(TABLES, table.name, "created")

    def end(name: str) -> None:
        if ended is not None:
            ended(name)
        engine.live.changed(TABLES, name, "dropped")

    tables.on_begin, tables.on_end = begin, end


def sample_messages(broker: Broker, stats: TopicStats) -> None:
    """Have the statistics count messages that no table keeps: one of each read, for all in it."""
    registry = broker.engine.registry

    def sample(client: Client, packets: Sequence[object]) -> None:
        count = len(packets)
        packet = packets[int(random() * count)] if count > 1 else packets[0]  # noqa: S311
        if not isinstance(packet, Publish) or packet.retain or client.caller is None:
            return
        try:
            route = registry.route(packet.topic)
        except Error:  # it is refused
            return
        if route.plain:
            stats.count(packet.topic, len(packet.payload), client.caller.client_id, count)

    broker.sample = sample


def watch_store(store: Store, tables: Sequence[Table], metrics: Metrics) -> None:
    """Let the metrics look at how much is in the log, without their own past."""

    def survey() -> None:
        found = [store.figures(source) for source in (*tables, None)]
        own = [store.figures(table.branch) for table in (TABLE, EVENTS, AUDIT, REFUSALS)]
        counted, left_out = [item.events for item in found], [item.events for item in own]
        metrics.holding.stored = sum(counted) - sum(left_out)
        counted, left_out = [item.bytes for item in found], [item.bytes for item in own]
        metrics.holding.stored_bytes = sum(counted) - sum(left_out)

    metrics.surveys.append(survey)
