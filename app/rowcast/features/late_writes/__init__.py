"""Late writes: versions that writes bring along, last-writer-wins, tombstones."""
