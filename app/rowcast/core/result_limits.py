"""Limits of results that jobs upload; see ``limits``."""

from typing import Final

RESULT_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Bytes of one result by default, and of all uploads of one user: a file until the commit, whose
keys are in a second one while it is committed."""
RESULTS_AT_ONCE: Final = 2
"""All running uploads have so many times the bytes of one user, so that no user blocks all."""
RESULT_CHANGES_MAX: Final = 5_000_000
"""Rows that one result changes by default: they are staged in a quarter of an hour, for
which the numbers of ``STAGED_GAP`` suffice."""
RESULT_CHANGES_MAX_MAX: Final = 50_000_000
"""The most that can be set: less than the numbers that are left out before one, so that half of a
log's numbers are used."""
RESULT_STAGED_CHANGES_MIN: Final = 5_000
"""A result with more changes is staged: one transaction of fewer takes less than a tenth of a
second from writers and readers, and the switch of a staged one about as much."""
STAGED_GAP: Final = 1 << 26
"""Numbers that others may use while a result is staged: those of twenty minutes at 50,000 a second.
A log has room for 134 million such results, whose numbers JavaScript tells apart (2**53)."""
STAGED_GIVE_BACK_SECONDS: Final = 5.0
"""Between two tries to remove what is left of a refused result: a full disk has room again by then,
or a warning is written."""
STAGED_PAGE_ROWS: Final = 1_000
"""Rows staged in one batch of the log: a few hundredths of a second of the applier."""
STAGED_PAGE_BYTES: Final = 1024 * 1024
"""Payloads of one batch: a page has fewer rows where they are large, because a batch of a log that
several machines keep is bounded: by ``max_payload`` of NATS, which is at least 4 MB."""
STAGED_PAGE_SECONDS: Final = 60.0
"""How long a page waits for the tables: longer than a busy machine restarts their process."""
STAGED_SWITCH_TRIES: Final = 3
"""How often a switch waits for tables that do not follow, half a minute each."""
RESULT_NOTICE_ROWS: Final = 1_000
"""Rows of a staged result that hooks are told of before it is noted how far they are."""
RESULTS_PENDING_NOTICES_MAX: Final = 16
"""Staged results that hooks are still to be told of: more are refused, so that listeners that are
slower than the results come are not behind without end."""
RESULT_PARTS_MAX: Final = 10_000
"""Parts of one result: a Spark task uploads one for each megabyte."""
RESULT_NOTES_BYTES: Final = 16 * 1024 * 1024
"""Notes of where the parts of an upload are, which a start reads: of so many parts with the longest
names. Without a bound a part that comes again for ever would keep a server from starting."""
RESULT_NOTED_ROW_BYTES: Final = 64
"""Bytes of rows for which there may be another one of such notes: twice what pages take."""
RESULTS_MAX: Final = 32
"""Concurrent uploads."""
RESULTS_OF_USER_MAX: Final = 8
"""Concurrent uploads of one user: a quarter of all."""
RESULT_IDLE_SECONDS: Final = 600
"""Idle time after which an upload is discarded: the job is dead."""
RESULT_TOUCH_SECONDS: Final = 60
"""Between two notes on the disk that an upload is being committed: a tenth of the time after which
a restart removes it."""
RESULT_SYNCS_AT_ONCE: Final = 2
"""Parts that wait for the disk at a time: fewer than the threads of which sign-ins, too, need one,
so that nobody who brings parts, however many at a time to however slow a disk, keeps others out."""
RESULT_NAME_CHARS_MAX: Final = 100
"""Name of a job, of an upload or of a part: stored in facts or in events."""
RESULT_CUT_CHARS_MAX: Final = 300
"""Cut of a result: a cursor, or the name of a stream's query and the number of its batch; it is in
the name of the writer of each of its rows, and in its receipt."""
RESULT_SLICE_ROWS: Final = 100
"""Rows checked in one turn of the loop, written to the disk together, and compared with their
records together: a few milliseconds each."""
RESULT_SHARDS: Final = 256
"""Parts of a set of topics by their hashes, of which one at a time is in memory: 20,000 topics of
the largest result. A job's own records are listed in as many facts."""
RESULT_TOPICS_HELD_BYTES: Final = 4 * 1024 * 1024
"""Of such a set in memory before it is written to a file: 50,000 usual topics."""
RESULT_TOPIC_BYTES: Final = 64
"""Overhead of one topic in memory: its text and its place in a list."""
RESULT_MARKS_BYTES: Final = 8 * 1024 * 1024
"""Marks of the topics of one result, a bit for each: of five million changes one in fourteen
readers of another topic looks into the log in vain, of a million one in seventy."""
RESULT_NAMES_BYTES: Final = 1024 * 1024
"""Names of a job's own records in one batch of the log, as ``STAGED_PAGE_BYTES``; what has more is
written before the result."""
RESULT_NAMES_AT_ONCE: Final = 10_000
"""Own records of a job up to which their names are read together: a megabyte or less."""
RESULT_RECEIPTS_MAX: Final = 1_000
"""Receipts of one job that are remembered, the newest: a repeat of an older one is refused."""
