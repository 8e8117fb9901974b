"""The feature: counts what is written to the busiest topics, for rows of ``$SYS/topics`` (F28)."""

from collections.abc import Sequence
from random import random

from rowcast.core.callers import Caller
from rowcast.core.errors import Error
from rowcast.features.topic_statistics.topic_stats import TopicStats
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel
from rowcast.mqtt.packets import Publish
from rowcast.routes.registry import Registry
from rowcast.seams.seams import Sampler


class TopicStatistics(Feature):
    """The statistics of one server."""

    def install(self, kernel: Kernel) -> None:
        """Count every write that is logged; where messages are not, samples of them."""
        stats = TopicStats(kernel.now, lambda topic: len(kernel.bus.match(topic)))
        kernel.committer.after_append.append(stats.appended)
        kernel.topic_facts.append(stats)
        kernel.surveys.append(stats.update)
        if kernel.registry.undeclared and not kernel.registry.logged:
            kernel.samplers.append(sampler(stats, kernel.registry))


def sampler(stats: TopicStats, registry: Registry) -> Sampler:
    """Return what counts messages that no table keeps: one of each read, for all in it."""
    known = registry.known

    def sample(caller: Caller, packets: Sequence[object]) -> None:
        count = len(packets)
        packet = packets[int(random() * count)] if count > 1 else packets[0]  # noqa: S311
        if not isinstance(packet, Publish) or packet.retain:
            return
        try:
            route = known.get(packet.topic) or registry.route(packet.topic)
        except Error:  # it is refused
            return
        if route.plain:
            stats.count(packet.topic, len(packet.payload), caller.client_id, count)

    return sample
