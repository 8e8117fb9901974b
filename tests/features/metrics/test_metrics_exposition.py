"""What Prometheus reads: the text of numbers and histograms."""

from rowcast.core.histograms import Histogram, HistogramFamily
from rowcast.doors.http.request_times import RequestTimes
from rowcast.features.metrics.exposition import exposition

BOUNDS = (0.1, 1.0)


def test_a_number_has_both_names():
    text = exposition({"$SYS/broker/bytes/sent": "12", "$SYS/broker/uptime": "3 seconds"}).decode()
    assert text.startswith(
        "# HELP broker_bytes_sent $SYS/broker/bytes/sent\n"
        "# TYPE broker_bytes_sent counter\nbroker_bytes_sent 12\n"
    )
    assert "rowcast_bytes_sent_total 12.0\n" in text
    assert "rowcast_uptime 3.0\n" in text


def test_buckets_are_cumulative_and_hold_their_bound():
    found = Histogram(BOUNDS)
    for seconds in (0.05, 0.1, 0.5, 7.0):
        found.observe(seconds)
    measure = HistogramFamily("rowcast_x_seconds", "X.", ("kind",), lambda: {("a",): found})
    lines = exposition({}, [measure]).decode().splitlines()
    assert lines == [
        "# HELP rowcast_x_seconds X.",
        "# TYPE rowcast_x_seconds histogram",
        'rowcast_x_seconds_bucket{kind="a",le="0.1"} 2.0',
        'rowcast_x_seconds_bucket{kind="a",le="1.0"} 3.0',
        'rowcast_x_seconds_bucket{kind="a",le="+Inf"} 4.0',
        'rowcast_x_seconds_count{kind="a"} 4.0',
        'rowcast_x_seconds_sum{kind="a"} 7.65',
    ]


def test_series_of_requests_are_bounded():
    times = RequestTimes(most=3)
    for number in range(10):
        times.note("GET", f"t{number}", False, 200, 0.01)
    counts = {labels: sum(found.counts) for labels, found in times.family().series().items()}
    assert counts == {
        ("GET", "/t0", "200"): 1,
        ("GET", "/t1", "200"): 1,
        ("GET", "/t2", "200"): 1,
        ("other", "/other", "0"): 7,
    }
