"""Late writes: writes with their own versions, last-writer-wins, tombstones."""
