"""A snapshot made by hand, as the manifest describes it: what readers rely on, and nothing else."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = """
type Dog @table @export {
  id: ID @primaryKey
  name: String!
  age: Int
  born: Date
  weight: Float
  price: Decimal
  chip: Bytes
  tags: [String]
  more: Any
}
"""
MOMENT = pa.timestamp("us", "UTC")
DOG = pa.schema([
    ("id", pa.string()), ("name", pa.string()), ("age", pa.int32()), ("born", MOMENT),
    ("weight", pa.float64()), ("price", pa.string()), ("chip", pa.binary()),
    ("tags", pa.list_(pa.field("element", pa.string()))), ("more", pa.string()),
    ("_extra", pa.string()), ("_topic", pa.string()), ("_seq", pa.int64()), ("_ts", MOMENT),
    ("_version", pa.int64()),
])  # fmt: skip


def write_snapshot(root, epoch, seq, files, schema=SCHEMA, columns=DOG, name="Dog"):
    """Write a snapshot of one table: `files` has the rows of each file, by its path."""
    folder = root / f"{seq:018d}"
    entries = []
    for path, rows in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist(rows, columns)
        pq.write_table(table, file, row_group_size=131_072)
        entries.append({"path": path, "rows": len(rows), "bytes": file.stat().st_size})
    table = {"rows": sum(entry["rows"] for entry in entries), "files": entries}
    manifest = {
        "format": 1, "cut": f"{epoch}:{seq}", "epoch": epoch, "seq": seq, "schema": schema,
        "tables": {name: table},
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    newest = root / "newest"
    newest.unlink(missing_ok=True)
    newest.symlink_to(folder.name)
    return folder


def dog(number, seq=None, **facts):
    """A row of the table of dogs."""
    version = 1_700_000_000_000_000 + (seq or number)
    row = {
        "id": str(number), "name": f"dog {number}", "_topic": f"Dog/{number}",
        "_seq": seq or number, "_ts": version, "_version": version,
    }  # fmt: skip
    return row | facts
