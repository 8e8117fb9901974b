"""The feature: ``$SYS/proposal`` proposes a schema for topics that nobody declared (F34)."""

from rowcast.core.topic_tables import TopicRoot
from rowcast.features.schema_proposal.proposal_resource import PATH, proposal_resource
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class SchemaProposal(Feature):
    """The proposal, from the newest messages of all topic tables."""

    def install(self, kernel: Kernel) -> None:
        """Put it at its path."""

        def branches() -> list[TopicRoot]:
            return [branch for parts in kernel.log_parts for branch, _ in parts.keeps()]

        kernel.rows(PATH, proposal_resource(branches))
