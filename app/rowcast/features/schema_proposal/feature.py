"""The feature: ``$SYS/proposal`` proposes a schema for topics that nobody declared (F34)."""

from rowcast.features.schema_proposal.proposal_resource import PATH, proposal_resource
from rowcast.kernel.feature import Feature
from rowcast.kernel.kernel import Kernel


class SchemaProposal(Feature):
    """The proposal, from the newest messages of all topic tables."""

    def install(self, kernel: Kernel) -> None:
        """Put it at its path."""
        tables = kernel.topic_tables
        if tables is not None:
            kernel.rows(PATH, proposal_resource(lambda: [branch for branch, _ in tables.keeps()]))
