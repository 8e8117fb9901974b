"""A million retained messages: the walk over the topics beside two other designs (E2, E32).

Three ways to keep them in the same database, with the same pragmas, filled with the same messages:

    skip-scan    what we do: one table clustered by topic, which is index and message store in one
    append+fold  one row for each message, folded to the last of each topic when it is read
    topic index  a table of topics alone, beside a store of messages by topic

and the scan of all rows, as if there were no index. Said are the rate of filling, the size on disk,
and, for several filters over several shapes of trees, the time to the first message and the last.
"""

import resource
import sqlite3
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from rowcast.core.events import PUT, Event
from rowcast.core.topics import TopicFilter
from rowcast.store import sql_scan
from rowcast.store.sql_commit import LogPartition
from rowcast.store.sql_rows import TopicRows
from rowcast.store.sqlite import SqlStore

PAYLOAD = b"x" * 32
BATCH = 1_000
PAGE = 1_000

Topics = Callable[[int], str]


def middle(number: int) -> str:
    """A thousand branches in the middle, a thousand leaves each; ``c`` and nine below it."""
    branch, leaf = divmod(number, 1_000)
    if leaf == 0:
        return f"a/{branch:04}/c"
    return f"a/{branch:04}/c/{leaf}" if leaf < 10 else f"a/{branch:04}/s{leaf:03}"


def first(number: int) -> str:
    """A hundred thousand branches at the first level, ten leaves each; ten have ``rare``."""
    branch, leaf = divmod(number, 10)
    return f"{branch:06}/rare" if leaf == 7 and branch % 10_000 == 5 else f"{branch:06}/v{leaf}"


def deep(number: int) -> str:
    """Six levels of ten branches."""
    return "a/" + "/".join(f"{number:06}")


def lone(number: int) -> str:
    """A million branches of one leaf."""
    return f"r/{number:06}/x"


SHAPES: dict[str, tuple[Topics, list[str]]] = {
    "wide middle": (middle, ["a/+/c", "a/+/c/#", "a/0010/#", "a/+/s555", "#"]),
    "wide first level": (first, ["+/rare", "+/v3", "050000/#"]),
    "deep": (deep, ["a/+/3/+/5/+/7", "a/1/2/3/#", "a/+/+/+/+/+/9"]),
    "one leaf each": (lone, ["r/+/x", "r/+/y", "+/+/x", "r/777777/#"]),
}


def rss_mb() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def timed(rows: Iterator[object]) -> tuple[float, float, int]:
    """Return milliseconds to the first row, of CPU to the last, and how many there were.

    CPU, because that says the same on a busy machine; all of the data is in the page cache.
    """
    begin, spent = time.perf_counter(), time.thread_time()
    found = next(rows, None)
    head = time.perf_counter() - begin
    count = sum(1 for _ in rows) + (found is not None)
    return head * 1e3, (time.thread_time() - spent) * 1e3, count


# -- ours ------------------------------------------------------------------------------------------


def fill_store(store: SqlStore, topics: Topics, count: int) -> float:
    """Commit so many messages, log and all; return the rate."""
    begin = time.perf_counter()
    for start in range(0, count, BATCH):
        store.commit(
            [
                Event(topics(n), PUT, PAYLOAD, None, 1, True, None, "c", None, 0.0, n + 1, n + 1)
                for n in range(start, min(start + BATCH, count))
            ]
        )
    return count / (time.perf_counter() - begin)


def walk(store: SqlStore, text: str) -> Iterator[object]:
    """Give what a filter selects, a page at a time, as a subscriber gets it."""
    topics, after = TopicFilter(text), ""
    while True:
        page = store.scan(None, topics, after, PAGE)
        yield from page.records
        if not page.more:
            return
        after = page.records[-1].topic


def scan_all(store: SqlStore, text: str) -> Iterator[object]:
    """Give the same by looking at every row."""
    topics = TopicFilter(text)
    with store._database.reading() as cursor:
        for row in cursor.execute('SELECT topic, payload FROM "rowcast_topics" ORDER BY topic'):
            if topics.matches(row[0]):
                yield row


def measure_shape(directory: Path, name: str, count: int) -> SqlStore:
    """Fill a store with one shape of tree and print what its filters cost."""
    topics, filters = SHAPES[name]
    store = SqlStore(directory / name.replace(" ", "_"))
    store.open([])
    rate = fill_store(store, topics, count)
    size = sum(path.stat().st_size for path in store.path.parent.iterdir()) / 1e6
    store.close()
    begin = time.perf_counter()
    store = SqlStore(directory / name.replace(" ", "_"))
    store.open([])
    opened = time.perf_counter() - begin
    print(f"\n{name}: {count:,} filled at {rate:,.0f}/s, {size:,.0f} MB with the log, ", end="")
    print(f"opened in {opened:.2f} s")
    print(f"  {'filter':22}{'messages':>10}{'first ms':>10}{'CPU ms':>10}{'RSS MB':>8}", end="")
    print(f"{'scan CPU':>10}{'faster':>8}")
    for text in filters:
        before = rss_mb()
        first_ms, cpu_ms, found = timed(walk(store, text))
        grown = rss_mb() - before
        _, scan_ms, same = timed(scan_all(store, text))
        assert found == same, (text, found, same)
        print(f"  {text:22}{found:10,}{first_ms:10.2f}{cpu_ms:10.1f}{grown:+8.1f}", end="")
        print(f"{scan_ms:10.0f}{scan_ms / cpu_ms:7.0f}x")
    return store


# -- what was declined -----------------------------------------------------------------------------


def database(path: Path, *tables: str) -> sqlite3.Connection:
    """Open a database with our pragmas."""
    connection = sqlite3.connect(path, isolation_level=None)
    for text in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-16000", "page_size=4096"):
        connection.execute(f"PRAGMA {text}")
    for table in tables:
        connection.execute(table)
    return connection


def fill_raw(
    connection: sqlite3.Connection, statements: list[str], topics: Topics, count: int
) -> float:
    """Run each statement for each message, as many in a transaction as we commit at once."""
    begin = time.perf_counter()
    for start in range(0, count, BATCH):
        rows = [(topics(n), PAYLOAD) for n in range(start, min(start + BATCH, count))]
        connection.execute("BEGIN")
        for text in statements:
            connection.executemany(
                text, rows if text.count("?") == 2 else [row[:1] for row in rows]
            )
        connection.execute("COMMIT")
    return count / (time.perf_counter() - begin)


def fold(connection: sqlite3.Connection, text: str) -> Iterator[object]:
    """Read the log of messages and keep the last of each topic."""
    topics = TopicFilter(text)
    rows = connection.execute("SELECT topic, payload FROM m ORDER BY seq")
    last = {topic: payload for topic, payload in rows if topics.matches(topic)}
    yield from sorted(last.items())


def index_then_fetch(connection: sqlite3.Connection, text: str) -> Iterator[object]:
    """Walk over an index of topics alone and fetch each message from the store beside it."""
    rows = TopicRows()
    rows.name, rows.columns = "i", ('"topic"',) * (len(rows.tail) + 1)
    part = LogPartition(rows, 0)
    for row in sql_scan.scan(connection.cursor(), part, TopicFilter(text), ""):
        yield connection.execute("SELECT payload FROM m WHERE topic=?", row[:1]).fetchone()


def measure_alternatives(directory: Path, ours: SqlStore, count: int) -> None:
    """Fill and ask the alternatives with the tree of the wide middle; print them beside ours."""
    one = "(topic TEXT PRIMARY KEY, payload BLOB) WITHOUT ROWID"
    put = "INSERT INTO m VALUES (?,?) ON CONFLICT (topic) DO UPDATE SET payload=excluded.payload"
    ways = {
        "skip-scan (one table)": ([f"CREATE TABLE m {one}"], [put], None),
        "append+fold": (
            ["CREATE TABLE m (seq INTEGER PRIMARY KEY, topic TEXT, payload BLOB)"],
            ["INSERT INTO m (topic, payload) VALUES (?,?)"],
            fold,
        ),
        "topic index + messages": (
            ["CREATE TABLE i (topic TEXT PRIMARY KEY) WITHOUT ROWID", f"CREATE TABLE m {one}"],
            ["INSERT OR IGNORE INTO i VALUES (?)", put],
            index_then_fetch,
        ),
    }
    print(f"\nthe three ways, {count:,} topics, then each written again (tree: wide middle)")
    print(f"  {'way':24}{'fill/s':>9}{'again/s':>9}{'MB':>6}", end="")
    print("   a/+/c first, CPU ms   a/+/c/# first, CPU ms   size ms   page of #")
    for number, (name, (tables, statements, ask)) in enumerate(ways.items()):
        path = directory / f"way{number}.db"
        connection = database(path, *tables)
        rates = [fill_raw(connection, statements, middle, count) for _ in range(2)]
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = path.stat().st_size / 1e6
        results = []
        for text in ("a/+/c", "a/+/c/#"):
            rows = walk(ours, text) if ask is None else ask(connection, text)
            results.append(timed(rows))
        begin = time.perf_counter()
        if ask is None:
            ours.count(None)
        else:
            what = "count(DISTINCT topic) FROM m" if ask is fold else "count(*) FROM i"
            connection.execute(f"SELECT {what}").fetchone()
        sized = (time.perf_counter() - begin) * 1e3
        rows = walk(ours, "#") if ask is None else ask(connection, "#")
        _, paged, _ = timed(islice(rows, PAGE))
        print(f"  {name:24}{rates[0]:9,.0f}{rates[1]:9,.0f}{size:6.0f}", end="")
        print("".join(f"   {a:8.2f} {b:9.1f} ({n:,})" for a, b, n in results), end="")
        print(f"  {sized:9.3f} {paged:10.2f}")
        connection.close()


def measure(directory: Path, count: int) -> None:
    """Measure every shape of tree, then the three ways."""
    ours = None
    for name in SHAPES:
        store = measure_shape(directory, name, count)
        if ours is None:
            ours = store
        else:
            store.close()
    if ours is not None:
        measure_alternatives(directory, ours, count)
        ours.close()
