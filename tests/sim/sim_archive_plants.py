"""Mistakes to plant into a shared archive: a simulation that misses one is blind."""

from rowcast.features.archive import archive_index
from rowcast.features.archive.archive_folders import ArchiveFolders
from rowcast.features.archive.archive_index import ArchivedRange, ArchiveIndex
from rowcast.features.archive.archived_rows import ArchivedRows
from rowcast.features.archive.archiver import Archiver


def refuse_files_that_overlap(monkeypatch):
    """A chain ends at a file of a node that was replaced."""

    def strict(ranges):
        chain = []
        for item in sorted(ranges, key=lambda item: (-item.last, item.after)):
            if not chain or item.last == chain[-1].after:
                chain.append(item)
        return tuple(reversed(chain))

    monkeypatch.setattr(archive_index, "chain_of", strict)


def name_files_alike(monkeypatch):
    """Two nodes write one file, and each finds that of the other."""
    path = ArchiveIndex.path

    def alike(self, number, after, last):
        return path(self, number, after, last).with_name(f"{after}-{last}.parquet")

    monkeypatch.setattr(ArchiveIndex, "path", alike)


def number_the_folders(monkeypatch):
    """Nodes whose parts have other numbers mix them up."""
    begin = ArchiveFolders.__init__
    monkeypatch.setattr(
        ArchiveFolders, "__init__", lambda self, place, *, named: begin(self, place, named=False)
    )


def _merging(*, overlaps, hasty):
    """Return a merge of files that overlap, or one that removes files before it has others."""

    def merge(self, number):
        if len(self._index.chain(number)) < 2:
            return False
        first, second = self._index.chain(number)[-2:]
        sizes = [self._index.place.size(item.path) for item in (first, second)]
        if sizes[0] > 2 * sizes[1] or sum(sizes) > self._bounds.file_bytes:
            return False
        if first.last != second.after and not overlaps:
            return False
        path = self._index.path(number, first.after, second.last)
        rows = [row for item in (first, second) for row in self._files.open(item.path).all]
        for item in (first, second) if hasty else ():
            self._index.place.remove(item.path)
        self._files.write(path, rows, self._facts(number, first.after, second.last))
        for gone in self._index.merge(number, ArchivedRange(first.after, second.last, path)):
            self._index.place.remove(gone.path)
        return True

    return merge


def remove_before_the_merged_file_is_there(monkeypatch):
    """Who is killed, or read, in between lacks it."""
    monkeypatch.setattr(Archiver, "_merge", _merging(overlaps=False, hasty=True))


def merge_what_overlaps(monkeypatch):
    """Events of two files are there twice in the merged one."""
    monkeypatch.setattr(Archiver, "_merge", _merging(overlaps=True, hasty=False))


def trim_what_could_not_be_written(monkeypatch):
    """A place that is away is no reason to wait."""
    done = Archiver._done

    async def careless(self, what, work):
        await done(self, what, work)
        return True

    monkeypatch.setattr(Archiver, "_done", careless)


def do_not_look_for_files(monkeypatch):
    """A node that follows knows the files of its start only."""
    monkeypatch.setattr(ArchivedRows, "look", lambda *_: None)


def keep_the_numbers_of_other_nodes(monkeypatch):
    """A row is that of the part with its number where it was written."""
    walk = ArchivedRows._of_group

    def numbered(self, path, file, index, topic):
        rows = walk(self, path, file, index, topic)
        return [(row[0], _Any(row[1]), *row[2:]) for row in rows]

    monkeypatch.setattr(ArchivedRows, "_of_group", numbered)


def believe_every_list(monkeypatch):
    """Names that are listed during a merge lack old and new ones."""

    def listed(self, number, _trimmed):
        return archive_index.chain_of(self._ranges(number))

    monkeypatch.setattr(ArchiveIndex, "_listed", listed)


def take_back_what_was_told(monkeypatch):
    """While names are not known all files are taken to be there, also those that were too old."""
    after = ArchiveIndex.after

    def forgetful(self, number, trimmed):
        return 0 if number in self._closed else after(self, number, trimmed)

    monkeypatch.setattr(ArchiveIndex, "after", forgetful)


def stop_at_a_file_that_is_gone(monkeypatch):
    """A node that was replaced has removed a file, and nothing is removed any more."""
    monkeypatch.setattr(
        Archiver,
        "_remove_old",
        lambda self: [
            self._remove_older(number, self._now() - self._bounds.keep_seconds)
            for number in self._index.numbers()
        ],
    )


def remove_what_is_old_in_part(monkeypatch):
    """The age of a file is that of its first event."""
    monkeypatch.setattr(
        ArchivedRows, "newest", lambda self, item: self._files.open(item.path).all[0][4]
    )


class _Any(int):
    """A number that no check changes."""

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return int(self) != int(other)

    __hash__ = int.__hash__


ARCHIVE_PLANTS = (
    refuse_files_that_overlap,
    name_files_alike,
    number_the_folders,
    remove_before_the_merged_file_is_there,
    trim_what_could_not_be_written,
    do_not_look_for_files,
    keep_the_numbers_of_other_nodes,
    merge_what_overlaps,
    believe_every_list,
)
