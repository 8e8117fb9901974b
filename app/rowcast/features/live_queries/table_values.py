"""The values and ids of a table's records, as conditions and orders compare them."""

from rowcast.codecs import JSON
from rowcast.core.events import DELETE, Record, local_id
from rowcast.core.tables import Table
from rowcast.core.values import parse_id
from rowcast.rows.transcoder import Transcoder


class TableValues:
    """Reads the records of one table."""

    def __init__(self, table: Table, transcoder: Transcoder) -> None:
        self._table = table
        self._transcoder = transcoder

    def id(self, record: Record) -> object:
        """Return a record's id."""
        return parse_id(self._table, local_id(self._table, record.topic))

    def spelled(self, record: Record) -> object:
        """Return a record's value as readers of JSON are told it."""
        return self._transcoder.spelled(record, JSON)

    def value(self, record: Record | None) -> object:
        """Return a record's value; None for plain bytes, as the store has it, and a deletion."""
        if record is None or record.kind == DELETE or not self._transcoder.structured(record):
            return None
        return record.decoded
