"""Snapshots as an export would leave them, with made-up files."""

import json

EPOCH = "0badcafe"


def name_of(seq):
    return f"{seq:018d}"


def put_snapshot(root, seq, payload=b"0123456789", page=None, table="Dog"):
    """Make a snapshot, or an increment from ``page`` on; return its directory."""
    name = f"changes/seq={page:018d}-{seq:018d}" if page else name_of(seq)
    place = root / name
    (place / table).mkdir(parents=True)
    (place / table / "part-00000.parquet").write_bytes(payload)
    file = {
        "path": f"{table}/part-00000.parquet",
        "rows": 2,
        "bytes": len(payload),
        "sha256": "ab" * 32,
    }
    facts = {"rows": 2, "seq_min": 1, "seq_max": seq, "digest": "sha256:1", "files": [file]}
    manifest = {"format": 1, "cut": f"{EPOCH}:{seq}", "epoch": EPOCH, "seq": seq, "from_seq": page,
                "created": "2020-02-29T21:00:00Z", "tables": {table: facts}}  # fmt: skip
    (place / "manifest.json").write_text(json.dumps(manifest))
    if not page:
        pointer = root / "newest"
        pointer.unlink(missing_ok=True)
        pointer.symlink_to(name)
    return place
