"""Options that a job is given, how a result is published, and its plot."""

import itertools
import xml.etree.ElementTree as ET
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake import EPOCH, TIME
from rowcast.core.errors import Error
from rowcast.core.pipeline_limits import RESULTS_KEPT
from rowcast_lake.spark.chart import svg
from rowcast_lake.spark.plotting import plot
from rowcast_lake.spark.runner import said_of

pytest.importorskip("pyspark", reason="NO SPARK: results are NOT tested here")

from rowcast_lake.spark.jobs import JOBS
from rowcast_lake.spark.publication import publish


@pytest.mark.parametrize(
    ("job", "options", "message"),
    [
        ("rollup", {"evry": "1h"}, 'no option --evry; did you mean "every"'),
        ("rollup", {"every": "1 hour"}, "--every '1 hour': write a duration such as"),
        ("rollup", {"every": ""}, "--every '': write durations such as"),
        ("rollup", {"percentiles": "95"}, "numbers between 0 and 1"),
        ("rollup", {"late": "soon"}, "--late 'soon': write a duration such as"),
        ("asof", {"at": "yesterday"}, "a position such as 1042, a cursor, or a time"),
        ("anomalies", {"season": "year"}, "write one of none, day, week"),
        ("anomalies", {"score": "nan"}, "a number that is not negative"),
        ("retention", {"last": "-1"}, "a whole number, such as 20"),
    ],
)
def test_a_bad_option_gets_a_sentence(job, options, message):
    """S9: what a user mistypes is told before Spark is started."""
    with pytest.raises(Error, match=message):
        JOBS[job].read_options(options)


def test_every_job_shows_a_command_that_names_it():
    """S9: the example of each job is of that job, and its options have readable defaults."""
    for name, job in JOBS.items():
        assert job.example.startswith(f"rowcast pipeline run {name}")
        job.read_options({})


@pytest.mark.slow
def test_a_result_appears_whole_and_old_ones_go(spark, tmp_path):
    """S3 for results: newest always names a complete one; a killed job's part is swept."""
    out = tmp_path / "results"
    dead = out / ".making-999999999-x"
    dead.mkdir(parents=True)
    (dead / "part").write_text("half")
    seen = []
    for count in range(1, RESULTS_KEPT + 3):
        made = publish(spark.range(count), out, "numbers", {"cut": f"log:{count}"})
        assert (count, count) == (made.rows, pq.read_table(made.place).num_rows)
        seen.append((out / "newest").resolve().name)
    kept = sorted(place.name for place in out.iterdir())
    assert [*seen[-RESULTS_KEPT:], "newest"] == kept
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    with pytest.raises(Error, match=r"holds other things \(thesis.txt\)"):
        publish(spark.range(1), tmp_path / "mine", "numbers", {})


def result(place, *rows):
    schema = pa.schema([("start", TIME), ("mean", pa.float64()), ("origin", pa.string())])
    lines = [{"start": EPOCH + timedelta(hours=h), "mean": v, "origin": o} for h, v, o in rows]
    pq.write_table(pa.Table.from_pylist(lines, schema=schema), place / "part.parquet")


def test_a_repeat_says_that_nothing_changed():
    """S14: the receipt of a repeat has the first one's figures; they are not of now."""
    told = {"rows": 3, "written": 2, "unchanged": 1, "removed": 0, "repeat": False}
    assert "Hourly: 3 rows, 2 written, 1 unchanged, 0 removed" == said_of(told, "Hourly", "a:1")
    again = said_of(told | {"repeat": True}, "Hourly", "a:1")
    assert "Hourly: the result of a:1 is there already, 3 rows; no change" == again


def test_a_plot_has_a_line_for_each_series(tmp_path):
    """S9: a result as a picture, and sentences where there is none."""
    result(tmp_path, *((h, float(h % 5), o) for h in range(48) for o in ("JFK", "<LGA>")))
    root = ET.fromstring(plot(tmp_path, "start", "mean", ("origin",), {}))
    lines = [item for item in root.iter() if item.get("class") == "line"]
    assert [48, 48] == [line.get("d").count("L") + 1 for line in lines]
    assert {"JFK", "<LGA>"} <= {item.text for item in root.iter()}
    with pytest.raises(Error, match="nowhere is not there; name what a job has published"):
        plot(tmp_path / "nowhere", "start", "mean", ("origin",), {})
    for arguments, message in (
        (("start", "men", (), {}), 'no column men; did you mean "mean"'),
        (("mean", "mean", (), {}), "--x mean: that is double, no time"),
        (("start", "mean", (), {"origin": "EWR"}), "no such row"),
    ):
        with pytest.raises(Error, match=message):
            plot(tmp_path, *arguments)
    result(tmp_path, *((h, 1.0, f"s{h}") for h in range(30)))
    with pytest.raises(Error, match="30 lines are more than the 7"):
        plot(tmp_path, "start", "mean", ("origin",), {})


def test_a_long_series_keeps_its_peaks():
    """S9: a chart of 100,000 points is thinned, and its highest and lowest points are in it."""
    values = itertools.cycle((0.0, 1.0, 0.5))
    points = [(float(x), next(values)) for x in range(100_000)]
    points[54_321] = (54_321.0, 99.0)
    root = ET.fromstring(svg("t", {"a": points}))
    line = next(item for item in root.iter() if item.get("class") == "line")
    spots = [tuple(map(float, spot.split())) for spot in line.get("d")[1:].split("L")]
    assert len(spots) <= 2 * 960
    highest = min(spots, key=lambda spot: spot[1])
    assert 1 == sum(spot[1] == highest[1] for spot in spots)
