"""What engines read of open tables, as digests of snapshots."""

import pyarrow as pa
import pyarrow.compute as pc

from rowcast_lake.columns.joining import shaped
from rowcast_lake.snapshots.digest import Digest
from rowcast_lake.snapshots.reading import rows_of


def digest_of(table, facts, manifest, place):
    """The digest of rows that an engine has read, in the order of the key."""
    table = pa.table(table)
    schema = next(rows_of(place, facts)).schema
    rows = shaped(table, pa.schema([schema.field(name) for name in facts.content]))
    rows = rows.take(pc.sort_indices(rows[facts.key])).combine_chunks()
    digest = Digest(facts.content)
    for batch in rows.to_batches():
        digest.update(batch)
    return str(digest)
