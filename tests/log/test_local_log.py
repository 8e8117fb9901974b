"""The log in files: the interface, then crashes, full disks and damage."""

import errno
import os
import random
import shutil
import stat
import subprocess
import sys

import pytest
from log_conformance import ALL, Conformance

from batch_cases import batch_after
from rowcast.core.errors import Code, Error
from rowcast.log import segment
from rowcast.log.batch import HEADER_BYTES, Batch
from rowcast.log.local_log import LocalLog
from rowcast.log.log import Head
from rowcast.log.segment import SEGMENT_HEADER

EPOCH = "0123abcd"
SMALL_BYTES = 2_000
"""Of a segment: four batches of 500 bytes."""


class Place:
    """A directory in which one log at a time is open."""

    def __init__(self, directory, segment_bytes):
        self.directory = directory
        self._segment_bytes = segment_bytes
        self._log = None

    def start(self):
        self.stop()
        self._log = LocalLog(self.directory, EPOCH, self._segment_bytes)
        return self._log

    def stop(self):
        if self._log is not None:
            self._log.close()
        self._log = None

    def files(self):
        """Return the segments, oldest first."""
        return sorted(self.directory.glob("*.log"))


class LocalCases:
    """What is asked of logs with large and with small segments."""

    SEGMENT_BYTES = 1 << 20

    @pytest.fixture
    def place(self, tmp_path):
        place = Place(tmp_path / "log", self.SEGMENT_BYTES)
        yield place
        place.stop()

    @pytest.fixture
    def log(self, place):
        return place.start()


class TestLocalLog(LocalCases, Conformance):
    pass


class TestSmallSegments(LocalCases, Conformance):
    SEGMENT_BYTES = SMALL_BYTES

    def test_trimming_removes_whole_files(self, place, log):
        for _ in range(20):
            log.append(batch_after(log, bytes(500)))
        before = len(place.files())
        log.trim(10)
        assert before - len(place.files()) >= 2
        assert log.trimmed >= 6

    def test_more_segments_are_read_than_are_open(self, log):
        for _ in range(60):
            log.append(batch_after(log, bytes(700)))
        order = list(range(60))
        random.Random(1).shuffle(order)
        for after in order:
            assert log.read(after, 1)[0].number == after + 1


# -- files -----------------------------------------------------------------------------------------


class TestFiles(LocalCases):
    def test_only_the_owner_may_read_them(self, place, log):
        log.append(batch_after(log))
        modes = {stat.S_IMODE(path.stat().st_mode) for path in place.directory.iterdir()}
        assert modes == {0o600}
        assert stat.S_IMODE(place.directory.stat().st_mode) == 0o700

    def test_a_second_process_is_refused(self, place, log):
        with pytest.raises(Error) as caught:
            LocalLog(place.directory, EPOCH)
        assert caught.value.code is Code.BUSY
        assert caught.value.place == str(place.directory)
        assert str(place.directory) not in caught.value.message

    def test_the_epoch_is_that_of_the_first_opening(self, place, log):
        place.stop()
        other = LocalLog(place.directory, "ffffffff")
        assert other.epoch == EPOCH
        other.close()


# -- crashes: any prefix of what was being written, in any order of pages --------------------------


class TestCrashes(LocalCases):
    RESERVED = 0
    """Zeros behind what was written."""

    def leave(self, place, data):
        """Leave a newest file as a crash did."""
        place.files()[-1].write_bytes(bytes(data) + bytes(self.RESERVED))

    @pytest.fixture
    def written(self, place, log):
        """Return the newest file's bytes, and where its last batch begins."""
        for _ in range(3):
            log.append(batch_after(log, random.Random(log.head.number).randbytes(1500)))
        place.stop()
        data = place.files()[-1].read_bytes()
        size = (len(data) - SEGMENT_HEADER.size) // 3
        return data, len(data) - size

    def test_a_batch_that_was_cut_anywhere_is_left_out(self, place, written):
        data, begin = written
        for end in range(begin, len(data), 37):
            self.leave(place, data[:end])
            log = place.start()
            assert log.head == Head(2, 2)
            log.append(batch_after(log, b"after the crash"))
            place.stop()
            log = place.start()
            assert [batch.number for batch in log.read(0, ALL)] == [1, 2, 3]
            place.stop()

    def test_pages_of_the_last_batch_may_be_missing_in_any_order(self, place, written):
        data, begin = written
        sectors = range(begin // 512, len(data) // 512 + 1)
        for chosen in range(1, 2 ** len(sectors)):
            torn = bytearray(data)
            for index, sector in enumerate(sectors):
                if chosen >> index & 1:
                    start, end = max(begin, sector * 512), min(len(data), sector * 512 + 512)
                    torn[start:end] = bytes(max(0, end - start))
            if torn == data:
                continue
            self.leave(place, torn)
            assert place.start().head == Head(2, 2), f"sectors {chosen:b}"
            place.stop()

    def test_an_empty_new_segment_is_taken_up(self, place, written):
        for size in (0, 10, SEGMENT_HEADER.size):
            log = place.start()
            number = log.head.number
            place.stop()
            header = SEGMENT_HEADER.pack(b"RCS1", 0, EPOCH.encode(), number + 1, 0)
            segment.path_of(place.directory, number + 1).write_bytes(header[:size])
            log = place.start()
            assert (log.head.number, log.term) == (number, number - 1)
            log.append(batch_after(log))
            assert len(log.read(0, ALL)) == number + 1
            place.stop()

    def test_a_payload_that_is_a_batch_itself_does_not_keep_it_closed(self, place, log):
        """A stranger may publish any bytes, also some that look like damage behind a torn batch."""
        log.append(batch_after(log))
        inner = Batch.make(10**6, 1, 10**6, batch_after(log).content(lambda _: None), 1).data
        log.append(batch_after(log, inner * 20))
        place.stop()
        self.leave(place, place.files()[-1].read_bytes()[:-5])
        assert place.start().head == Head(1, 1)

    @pytest.mark.heavy
    def test_kill_loses_nothing_that_was_acknowledged(self, tmp_path):
        """A process that is killed at any moment leaves all that it told of."""
        program = (
            "import sys; from pathlib import Path\n"
            "from batch_cases import batch_after\n"
            "from rowcast.log.local_log import LocalLog\n"
            f"log = LocalLog(Path(sys.argv[1]), {EPOCH!r}, {SMALL_BYTES})\n"
            "while True:\n"
            "    log.append(batch_after(log, bytes(300)))\n"
            "    print(log.head.number, flush=True)\n"
        )
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        told = 0
        for wanted in (1, 7, 40):
            with subprocess.Popen(
                [sys.executable, "-c", program, tmp_path / "log"],
                stdout=subprocess.PIPE,
                env=environment,
            ) as child:
                first = told
                while told < first + wanted:
                    told = int(child.stdout.readline())
                child.kill()
                rest = child.stdout.read().split()
                told = int(rest[-1]) if rest else told
            log = LocalLog(tmp_path / "log", EPOCH, SMALL_BYTES)
            assert log.head.number >= told
            assert [batch.number for batch in log.read(0, ALL)] == [*range(1, log.head.number + 1)]
            told = log.head.number
            log.close()


class TestCrashesOfReserved(TestCrashes):
    """The same of files with room for more, which is at most one reservation and one batch."""

    RESERVED = 2 * segment.RESERVED_BYTES + 1


class TestReserved(LocalCases):
    def test_a_sync_does_not_change_the_length_of_the_file(self, place, log):
        path = place.files()[-1]
        log.append(batch_after(log))
        length = path.stat().st_size
        assert segment.RESERVED_BYTES_MIN <= length
        log.append(batch_after(log))
        assert length == path.stat().st_size

    def test_a_longer_file_reserves_more(self, place, log):
        path = place.files()[-1]
        for _ in range(3):
            log.append(batch_after(log, bytes(segment.RESERVED_BYTES_MIN * 3)))
        log.append(batch_after(log))
        written = path.read_bytes().rstrip(b"\0")
        assert path.stat().st_size - len(written) > 2 * segment.RESERVED_BYTES_MIN

    def test_nothing_is_reserved_before_the_header_is_there(self, tmp_path, monkeypatch):
        """Else a kill in between would leave a file of zeros, which is no segment."""
        reserved = []

        def reserve(handle, offset, length):
            reserved.append(os.pread(handle, 4, 0))
            return real(handle, offset, length)

        real = os.posix_fallocate
        monkeypatch.setattr(segment.os, "posix_fallocate", reserve)
        log = LocalLog(tmp_path / "log", EPOCH, SMALL_BYTES)
        for _ in range(10):
            log.append(batch_after(log, bytes(500)))
        log.close()
        assert {b"RCS1"} == set(reserved)

    def test_a_closed_file_is_as_long_as_its_batches(self, place, log):
        batch = batch_after(log)
        log.append(batch)
        place.stop()
        assert SEGMENT_HEADER.size + len(batch.data) == place.files()[-1].stat().st_size

    def test_a_file_system_without_reservations_is_written_to(self, place, log, monkeypatch):
        def refuse(*_):
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")

        monkeypatch.setattr(segment.os, "posix_fallocate", refuse)
        batches = []
        for _ in range(3):
            batches.append(batch_after(log, bytes(500)))
            log.append(batches[-1])
        assert batches == log.read(0, ALL)
        size = SEGMENT_HEADER.size + sum(len(batch.data) for batch in batches)
        assert size == place.files()[-1].stat().st_size


class TestReservedInSmallFiles(LocalCases):
    SEGMENT_BYTES = SMALL_BYTES

    def test_an_older_file_is_as_long_as_its_batches(self, place, log):
        """Readers take it for complete, and another opening for damaged if it were not."""
        batches = []
        while len(place.files()) < 3:
            batches.append(batch_after(log, bytes(500)))
            log.append(batches[-1])
        older = [path.read_bytes()[SEGMENT_HEADER.size :] for path in place.files()[:-1]]
        assert b"".join(batch.data for batch in batches[:-1]) == b"".join(older)


# -- damage: what was acknowledged is never cut off ------------------------------------------------


class TestDamage(LocalCases):
    SEGMENT_BYTES = SMALL_BYTES
    RESERVED = 0
    """Zeros behind the last batch."""

    @pytest.fixture
    def place(self, tmp_path):
        place = Place(tmp_path / "log", self.SEGMENT_BYTES)
        log = place.start()
        for _ in range(10):
            log.append(batch_after(log, bytes(500)))
        place.stop()
        with place.files()[-1].open("ab") as file:
            file.write(bytes(self.RESERVED))
        yield place
        place.stop()

    def refusal(self, call, *arguments):
        with pytest.raises(Error) as caught:
            call(*arguments)
        assert caught.value.code is Code.INVALID
        assert "damaged" in caught.value.message
        return caught.value

    def change(self, path, offset):
        data = bytearray(path.read_bytes())
        data[offset] ^= 1
        path.write_bytes(data)

    def test_a_changed_byte_before_the_last_batch_is_refused(self, place):
        path = place.files()[-1]
        size = path.stat().st_size - self.RESERVED
        inner = (size - SEGMENT_HEADER.size) // 2
        for offset in range(SEGMENT_HEADER.size, SEGMENT_HEADER.size + inner, 11):
            self.change(path, offset)
            refusal = self.refusal(place.start)
            assert refusal.place == str(path)
            self.change(path, offset)
        assert place.start().head == Head(10, 10)

    def test_a_changed_byte_of_an_older_segment_is_told_when_it_is_read(self, place):
        path = place.files()[0]
        self.change(path, SEGMENT_HEADER.size + HEADER_BYTES + 3)
        log = place.start()
        assert log.read(4, ALL)[-1].number == 10
        assert self.refusal(log.read, 0, ALL).place == str(path)

    def test_a_file_that_is_no_segment_is_refused(self, place):
        self.change(place.files()[-1], 0)
        self.refusal(place.start)

    def test_a_file_in_another_s_place_is_refused(self, place):
        first, _, last = place.files()
        shutil.copy(first, last)
        self.refusal(place.start)

    def test_a_file_of_another_log_is_refused(self, place, tmp_path):
        other = LocalLog(tmp_path / "other", "ffffffff")
        other.append(batch_after(other))
        other.close()
        shutil.copy(next((tmp_path / "other").glob("*.log")), place.files()[0])
        self.refusal(place.start().read, 0, ALL)

    def test_a_missing_file_is_told_when_it_is_read(self, place):
        place.files()[1].unlink()
        log = place.start()
        assert log.head == Head(10, 10)
        assert "batch 5 is missing" in self.refusal(log.read, 0, ALL).message


class TestDamageOfReserved(TestDamage):
    """The same after a crash, which leaves room for more behind the last batch."""

    RESERVED = 5000


# -- a disk that refuses ---------------------------------------------------------------------------


class TestFullDisk(LocalCases):
    @pytest.fixture
    def disk(self, monkeypatch):
        """Return what the next calls of the disk answer: a number is how many bytes are taken."""
        answers = {"pwrite": [], "fdatasync": []}
        real = {name: getattr(os, name) for name in answers}

        def pwrite(handle, data, offset):
            if not answers["pwrite"]:
                return real["pwrite"](handle, data, offset)
            answer = answers["pwrite"].pop(0)
            if isinstance(answer, OSError):
                raise answer
            return real["pwrite"](handle, data[:answer], offset)

        def fdatasync(handle):
            if answers["fdatasync"]:
                raise answers["fdatasync"].pop(0)
            real["fdatasync"](handle)

        monkeypatch.setattr(segment.os, "pwrite", pwrite)
        monkeypatch.setattr(segment.os, "fdatasync", fdatasync)
        return answers

    def refused(self, log):
        with pytest.raises(Error) as caught:
            log.append(batch_after(log, bytes(500)))
        assert caught.value.code is Code.BUSY
        assert caught.value.place

    def test_a_full_disk_refuses_and_goes_on_when_there_is_room(self, place, log, disk):
        log.append(batch_after(log))
        for _ in range(3):
            disk["pwrite"] = [100, OSError(errno.ENOSPC, "No space left on device")]
            self.refused(log)
            assert log.head == Head(1, 1)
        log.append(batch_after(log))
        assert [batch.number for batch in log.read(0, ALL)] == [1, 2]
        assert place.start().head == Head(2, 2)

    def test_a_write_in_parts_is_one_batch(self, log, disk):
        disk["pwrite"] = [1, 63, 10]
        batch = batch_after(log, bytes(300))
        log.append(batch)
        assert log.read(0, ALL) == [batch]

    def test_nothing_is_taken_after_a_sync_that_failed(self, place, log, disk):
        """What the disk has is not known then, and a second sync would tell of success."""
        log.append(batch_after(log))
        disk["fdatasync"] = [OSError(errno.EIO, "Input/output error")]
        self.refused(log)
        self.refused(log)
        log = place.start()
        assert log.head == Head(1, 1)
        log.append(batch_after(log))
        assert log.head == Head(2, 2)
