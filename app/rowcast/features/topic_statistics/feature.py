"""The feature: counts what is written to the busiest topics, for rows of ``$SYS/topics`` (F28)."""

from rowcast.features.topic_statistics.topic_stats import ReadSampler, TopicStats
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class TopicStatistics(Feature):
    """The statistics of one server."""

    def install(self, kernel: Kernel) -> None:
        """Count every write that is logged; where messages are not, samples of them."""
        stats = TopicStats(kernel.now, lambda topic: len(kernel.bus.match(topic)))
        kernel.committer.after_append.append(stats.appended)
        kernel.topic_facts.append(stats)
        kernel.surveys.append(stats.update)
        if kernel.registry.undeclared and not kernel.registry.logged:
            kernel.samplers.append(ReadSampler(stats, kernel.registry).sample)
