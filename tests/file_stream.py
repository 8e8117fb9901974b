"""A plain stream over files, as Spark's file source is one: it remembers the names it has read."""

import pyarrow.parquet as pq


class FileStream:
    """Reads each file of a table in `changes` once, whenever it is asked to.

    ``seen`` is its checkpoint: another stream that is given it goes on from there.
    """

    def __init__(self, directory, table, seen=()):
        self._pattern = f"changes/*/{table}/*.parquet"
        self._directory = directory
        self.seen = set(seen)

    def poll(self):
        """Return the rows of new files, a list for each file."""
        found = [path for path in self._directory.glob(self._pattern) if path not in self.seen]
        self.seen.update(found)
        return [pq.ParquetFile(path).read().to_pylist() for path in found]
