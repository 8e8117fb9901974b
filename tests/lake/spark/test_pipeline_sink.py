"""Spark writes back: a DataFrame becomes records, all or none, and once; S14, M5."""

import asyncio
import json
import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from operator import ne

import pyarrow as pa
import pytest

from rowcast.core.errors import Error
from rowcast_lake.spark.options import Options
from rowcast_lake.spark.sink import Bringer, Brought, plain, stream_of
from serving import Server, application, wait_until

SCHEMA = """
type Hourly @table @export {
  id: ID @primaryKey
  n: Long
  mean: Float
  at: Date
  price: Decimal
  raw: Bytes
  list: [Int]
}
"""


def test_a_row_becomes_a_record_without_what_is_of_an_event():
    local = datetime(2026, 1, 2, 3)  # noqa: DTZ001 - of a TIMESTAMP_NTZ
    row = {
        "id": "a", "none": None, "day": date(2026, 1, 2), "at": local,
        "in": {"x": 1, "y": None}, "d": Decimal("1.10"), "_seq": 7, "_topic": "Dog/a",
        "_extra": '{"odd": 5}', "of": [{"name": "x", "_extra": '{"age":null,"city":"Y"}'}],
    }  # fmt: skip
    assert plain(row) == {
        "odd": 5, "id": "a", "day": datetime(2026, 1, 2, tzinfo=UTC),
        "at": datetime(2026, 1, 2, 3, tzinfo=UTC), "in": {"x": 1}, "d": Decimal("1.10"),
        "of": [{"name": "x", "age": None, "city": "Y"}],
    }  # fmt: skip


async def test_a_table_is_asked_for_before_spark_is_started(tmp_path):
    """S14: a misspelt --to is told at once, and without Spark's trace before it."""
    async with application(tmp_path, SCHEMA) as program:
        url = f"http://127.0.0.1:{program.http_port}"
        wrong, right = (
            Bringer(Options.of({"url": url, "table": name}), replace=False)
            for name in ("Hourli", "Hourly")
        )
        with pytest.raises(Error, match=r'^--to Hourli: .* did you mean "Hourly"'):
            await asyncio.to_thread(wrong.check)
        await asyncio.to_thread(right.check)
        wrong._remote._http.close()  # both have the one of this process


@pytest.mark.slow
def test_m5_a_job_goes_on_when_its_server_is_killed(tmp_path):
    """M5: between two parts, before the commit, and after it when its answer is lost."""
    rows = [{"id": str(number), "n": number} for number in range(30)]
    with Server(tmp_path, SCHEMA) as server:
        options = Options.of({"url": server.url, "table": "Hourly"})
        bringer = Bringer(options, replace=False, part_rows=10)

        def restart():
            server.kill()
            server.start()

        def batches():
            for at in (0, 10, 20):
                if at == 20:
                    restart()
                yield pa.RecordBatch.from_pylist(rows[at : at + 10])

        brought = bringer.bring(batches())
        restart()
        for _ in range(2):
            bringer.commit([brought], "0badcafe:1")
            restart()
        with server.client() as client:
            assert len(client.get("/Hourly/").json()) == 30
            assert len(client.get("/Hourly/?from=0").json()) == 30
            assert client.get("/$SYS/results/").json() == []
        bringer._remote._http.close()


@pytest.mark.slow
def test_m5_an_upload_is_kept_while_rows_are_computed(tmp_path):
    """M5: parts of other tasks, too, for as long as one task takes; and over a restart."""
    rows = [{"id": str(n), "n": n} for n in range(20)]
    with Server(tmp_path, SCHEMA) as server, server.client() as client:
        options = Options.of({"url": server.url, "table": "Hourly"})
        bringer = Bringer(options, replace=False, part_rows=10, touch_seconds=0.01)

        def used():
            (upload,) = client.get("/$SYS/results/").json()
            (notes,) = (tmp_path / "data" / "uploads").glob("*.notes")
            return upload["touched"], notes.stat().st_mtime_ns

        def batches():
            yield pa.RecordBatch.from_pylist(rows[:10])
            yield pa.RecordBatch.from_pylist(rows[10:11])  # so that the first part is sent
            before = used()
            wait_until(lambda: all(map(ne, before, used())), "it is said to be in use")
            yield pa.RecordBatch.from_pylist(rows[11:])

        bringer.commit([bringer.bring(batches())], "0badcafe:1")
        assert client.get("/Hourly/?count").json() == {"count": 20}
        assert client.get("/$SYS/results/").json() == []
        bringer._remote._http.close()


async def test_too_many_rows_are_refused_before_they_are_sent(tmp_path):
    """S14: where a writer knows how many they are, such as of what it published before."""
    async with application(tmp_path, SCHEMA, {"results.changes_max": 5}) as program:
        url = f"http://127.0.0.1:{program.http_port}"
        few, many, unknown = (
            Bringer(Options.of({"url": url, "table": "Hourly", **rows}), replace=False)
            for rows in ({"rows": "5"}, {"rows": "6"}, {})
        )
        await asyncio.to_thread(few.declare)
        await asyncio.to_thread(unknown.declare)
        with pytest.raises(Error, match="at least 6 new rows, and one changes at most 5"):
            await asyncio.to_thread(many.declare)
        few._remote._http.close()


def test_a_stream_is_numbered_by_what_its_checkpoint_says():
    """S14: by Spark's identity of it, so that a name that is used again has other numbers."""
    told = [None, Brought("u", ("0-0",), 1, "5f1c"), Brought("u", ("1-0",), 1, "5f1c")]
    assert stream_of("", told) == "5f1c"
    assert stream_of("orders", told) == "orders/5f1c"
    assert stream_of("orders", [Brought("u", (), 0)]) == "orders"
    with pytest.raises(Error, match="name it with"):
        stream_of("", [None])


def frame(spark, count=10):
    return spark.range(count).selectExpr(
        "cast(id as string) id", "id n", "id / 4 mean", "timestamp'2026-01-01 01:00:00' at",
        "cast(id as decimal(10,2)) price", "cast('ab' as binary) raw", "array(1, 2) list",
    )  # fmt: skip


@pytest.mark.slow
def test_s14_a_frame_becomes_records_once(spark, tmp_path):
    """S14, M5: types, equal content, replacing, a bad row, and a stream with numbered batches."""

    def write(rows, mode="append", **more):
        options = {"url": server.url, "table": "Hourly", "job": "hourly", **more}
        place = tmp_path / "receipt"
        rows.write.format("rowcast").options(receipt=str(place), **options).mode(mode).save()
        told = json.loads(place.read_text())
        return told["written"], told["unchanged"], told["removed"], told["repeat"]

    def last():
        return client.get("/Hourly/?last=1").json()[0]["_seq"]

    with Server(tmp_path, SCHEMA) as server, server.client() as client:
        rows = frame(spark).repartition(3)
        assert write(rows, "overwrite", cut="0123abcd:5") == (10, 0, 0, False)
        seen = client.get("/Hourly/3?meta=true").json()
        assert {name: seen[name] for name in ("n", "mean", "at", "price", "raw", "list")} == {
            "n": 3, "mean": 0.75, "at": "2026-01-01T01:00:00Z", "price": "3.00", "raw": "YWI=",
            "list": [1, 2],
        }  # fmt: skip
        assert seen["_from_cut"] == "0123abcd:5"
        before = last()
        assert write(rows, "overwrite", cut="0123abcd:5") == (10, 0, 0, True)
        assert write(rows, "overwrite", cut="0123abcd:6") == (0, 10, 0, False)
        assert last() == before
        assert write(rows.where("n < 8"), "overwrite", cut="0123abcd:7") == (0, 8, 2, False)
        assert client.get("/Hourly/?count").json() == {"count": 8}
        with pytest.raises(Exception, match=r"row 0 \(Hourly/0\): n"):
            write(frame(spark, 1).selectExpr("id", "'x' n"))
        assert client.get("/$SYS/results/").json() == []

        source = tmp_path / "in"
        source.mkdir()
        stream = (
            spark.readStream.schema("id string, n long").json(str(source))
            .writeStream.format("rowcast").options(url=server.url, table="Hourly", job="stream")
            .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
            .option("query", "readings")
        )  # fmt: skip
        for number in (1, 2, 3):
            (source / f"{number}.json").write_text(json.dumps({"id": "s", "n": number}))
            assert stream.start().awaitTermination(300)
            if number == 2:  # it begins anew, and finds what is not there yet
                shutil.rmtree(tmp_path / "checkpoint")
                shutil.rmtree(source)
                source.mkdir()
        told = client.get("/Hourly/s?from=0").json()
        assert [event["value"]["n"] for event in told] == [1, 2, 3]
        assert [event["_from_cut"].rpartition("#")[2] for event in told] == ["0", "1", "0"]
