"""The feature: durable streams at undeclared topics (V7)."""

from rowcast.features.durable_streams.appends import OWNER
from rowcast.features.durable_streams.settings import DurableStreamsSection
from rowcast.features.durable_streams.stream import MARK
from rowcast.features.durable_streams.streams import DurableStreams
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class StreamsOfTopics(Feature):
    """The streams of one server; ``settings`` has their bounds."""

    def __init__(self, settings: DurableStreamsSection) -> None:
        self._settings = settings

    def install(self, kernel: Kernel) -> None:
        """Store the state of a stream with its events, and end what expires."""
        streams = DurableStreams(kernel, self._settings.most, self._settings.most_per_user)
        kernel.steps.on_property(MARK, streams.step)
        kernel.facts(OWNER, streams.restore)
        kernel.expiry_sources.append(streams)
        kernel.provide(streams)
