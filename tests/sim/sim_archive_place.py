"""The place of a shared archive in a simulation: files in memory, and a turn before each call."""

from pathlib import Path

from sim_checks import Violation

from rowcast.features.archive.file_format import Group


def hash_of(name):
    """Return a number for a name, which is the same in every process."""
    return sum(name.encode())


class Place:
    """Files that all nodes see, with a turn before each call; a place and a format."""

    directory = Path("/archive")

    def __init__(self, world):
        self._world = world
        self.files: dict[Path, list[tuple[object, ...]]] = {}
        self.sources: dict[str, str] = {}

    def _turn(self):
        self._world.turn()
        if self._world.away:
            raise ConnectionError("the place is away")

    def folders(self):
        self._turn()
        return sorted({path.parent.name for path in self.files} | set(self.sources))

    def names(self, folder):
        """List names in two pages; what is merged meanwhile may be in none of them."""
        found = []
        for page in (0, 1):
            self._turn()
            here = [path.name for path in self.files if path.parent.name == folder]
            found += [name for name in here if hash_of(name) % 2 == page]
        return found

    def source(self, folder):
        self._turn()
        return self.sources.get(folder, "")

    def begin(self, folder, name):
        self._turn()
        self.sources[folder] = name

    def put_aside(self, folder):
        self._turn()
        for path in [path for path in self.files if path.parent.name == folder]:
            del self.files[path]
        return f"{folder}.1"

    def sweep(self, folder):
        """Nothing is left of what is not whole."""

    def size(self, path):
        self._turn()
        return len(self._found(path))

    def remove(self, path):
        self._turn()
        self.files.pop(path, None)

    def give_up(self, path):
        """Keep nothing of it: there is no cache."""

    def _found(self, path):
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    # -- the format

    def open(self, path):
        self._turn()
        return File(self._found(path))

    def groups(self, path):
        self._turn()
        return File(self._found(path)).groups()

    def write(self, path, rows, facts):
        """Put a file, and look for it, as in a store; what is another one's is no good."""
        self._turn()
        rows = list(rows)
        if facts["after"] >= facts["last"] or any(
            not facts["after"] < row[0] <= facts["last"] for row in rows
        ):
            raise Violation(f"{path} has other events than its name says")
        self.files[path] = rows
        self._turn()
        if self._found(path) is not rows:
            del self.files[path]
            raise OSError("it is not there as it was sent")

    def merge(self, paths, path, facts):
        self.write(path, [row for each in paths for row in self.open(each).all], facts)


class File:
    """An open file, which stays readable when it is removed."""

    def __init__(self, rows):
        self.all = rows

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def groups(self):
        return (Group(self.all[0][0], self.all[-1][0], max(row[4] for row in self.all)),)

    def rows(self, _index, _topic=None):
        return list(self.all)
