"""The benchmark harness: its frames, parsers, statistics and table. No time is asserted."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import frames, httpload, proc, report, retained_cli, stats
from bench.case import NONE, Case, Figure, flow
from bench.cases import CASES
from bench.flow import make_ring, reading
from bench.runner import Outcome
from bench.servers import COMMAND_LINES, STARTERS, command_line_in

PUBLISH = frames.publish("bench/00000", b"x" * 64)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (127, "7f"), (128, "8001"), (16_383, "ff7f"), (268_435_455, "ffffff7f")],
)
def test_remaining_length(value: int, encoded: str) -> None:
    assert frames.varint(value).hex() == encoded  # MQTT 3.1.1, table 2.4


def test_publish_frame() -> None:
    assert frames.publish("a/b", b"hi", 1, 10, retain=True).hex() == "33090003612f62000a6869"


def test_connect_frame() -> None:
    assert frames.connect("c", 60) == b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01c"


def test_subscribe_frame() -> None:
    assert frames.subscribe("a", 1) == b"\x82\x06\x00\x01\x00\x01a\x01"


def test_connect_frame_of_a_session_that_stays() -> None:
    assert frames.connect("c", 60, clean=False)[9] == 0  # MQTT 3.1.1, 3.1.2.4


def test_subscribe_frame_with_two_filters() -> None:
    assert frames.subscribe_all(["a", "b"], 1) == b"\x82\x0a\x00\x01\x00\x01a\x01\x00\x01b\x01"


def test_topics_of_a_ring_that_is_spread() -> None:
    ring = make_ring(flow(1, 1, 0, 10, spread=100), 0, 10)
    assert len(set(ring.frames)) == 100


def test_split_leaves_an_unfinished_frame() -> None:
    long = frames.publish("a", b"y" * 200)
    data = PUBLISH + long + PUBLISH[:5]
    ends = [end for _, _, end in frames.split(data, len(data))]
    assert ends == [len(PUBLISH), len(PUBLISH + long)]


@pytest.mark.parametrize("cut", range(len(PUBLISH)))
def test_counter_counts_whole_frames_only(cut: int) -> None:
    data = bytearray(PUBLISH * 3 + PUBLISH[:cut])
    assert frames.Counter(PUBLISH).count(data, len(data)) == (3, 3 * len(PUBLISH), b"")


def test_counter_ignores_what_lies_behind_the_size() -> None:
    data = bytearray(PUBLISH * 4)
    assert frames.Counter(PUBLISH).count(data, len(PUBLISH))[0] == 1


@pytest.mark.parametrize("payload", [b"z" * 64, b"z" * 300])
def test_counter_acknowledges_in_bulk(payload: bytes) -> None:
    packet_ids = [1, 2, 255, 256, 65_535]
    data = bytearray(b"".join(frames.publish("a/b", payload, 1, each) for each in packet_ids))
    sample = frames.publish("a/b", payload, 1, 9)
    assert frames.Counter(sample, 1).count(data, len(data)) == (
        5,
        len(data),
        frames.acks(frames.PUBACK, packet_ids),
    )


def test_counter_parses_when_sizes_vary() -> None:
    other = frames.publish("bench/00000", b"short", 1, 7)
    data = bytearray(frames.publish("bench/00000", b"x" * 64, 1, 6) + other + b"\xd0\x00")
    count, used, acks = frames.Counter(frames.publish("bench/00000", b"x" * 64, 1, 1), 1).count(
        data, len(data)
    )
    assert (count, used, acks) == (2, len(data), frames.acks(frames.PUBACK, [6, 7]))


def test_counter_answers_qos_2() -> None:
    first = frames.publish("a", b"x", 2, 5)
    data = bytearray(first + frames.acks(frames.PUBREL, [4]))
    expected = frames.acks(frames.PUBREC, [5]) + frames.acks(frames.PUBCOMP, [4])
    assert frames.Counter(first, 2).count(data, len(data)) == (1, len(data), expected)


def test_ring_runs_over_its_end() -> None:
    ring = frames.Ring([b"aa", b"bb", b"cc"])
    assert [bytes(ring.take(2)) for _ in range(3)] == [b"aabb", b"ccaa", b"bbcc"]


def test_ring_wants_frames_of_one_size() -> None:
    with pytest.raises(ValueError, match="one size"):
        frames.Ring([b"a", b"bb"])


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.load["load"] == "flow"], ids=lambda c: c.name
)
def test_packet_ids_of_a_ring_fit_twice_the_window(case: Case) -> None:
    load = case.load
    window = load["window"] // load["pubs"]
    ring = make_ring(load, 0, window)
    assert 2 * window <= len(ring.frames)
    assert len(ring.frames) <= 65_535 or not load["qos"]


def test_readings_have_one_size() -> None:
    assert {len(reading(number)) for number in (0, 999, 1000, 19_999)} == {61}


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 204 No Content\r\nETag: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ],
    ids=["length", "empty", "chunked"],
)
def test_response_end(response: bytes) -> None:
    ends = [httpload.response_end(response[:size]) for size in range(len(response))]
    assert (set(ends), httpload.response_end(response + b"HTTP")) == ({0}, len(response))


def test_an_error_status_is_not_counted() -> None:
    with pytest.raises(proc.BenchError, match="500"):
        httpload.response_end(b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n")


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_percentile_is_the_nearest_rank(share: float, value: int) -> None:
    assert stats.percentile(range(1, 101), share) == value


def test_medians_of_rounds() -> None:
    rounds = [{"rate": 1.0}, {"rate": 9.0, "p50": 2.0}, {"rate": 3.0}]
    assert stats.medians(rounds) == {"rate": 3.0, "p50": 2.0}


@pytest.mark.parametrize(
    ("target", "compared", "reached"),
    [
        (stats.Target(at_least=2), 2.0, True),
        (stats.Target(at_least=2), 0.5, False),
        (stats.Target(at_most_more=100), 200.0, False),
        (stats.Target(), 2.0, None),
    ],
)
def test_target(target: stats.Target, compared: float, reached: bool | None) -> None:
    ours, peer = (400.0, 200.0) if compared != 0.5 else (100.0, 200.0)
    assert (target.comparison(ours, peer), target.reached(compared)) == (compared, reached)


def outcome(ours: dict[str, float], peer: dict[str, float], **more: object) -> report.Row:
    case = Case("c", "title", "msg/s", {}, {"mosquitto": stats.Target(at_least=2)}, **more)
    return report.rows([Outcome(case, {"rowcast": [ours] * 5, "mosquitto": [peer] * 5})])[0]


def test_row_of_a_reached_target() -> None:
    row = outcome({"rate": 300.0, "server_us": 1.0}, {"rate": 100.0, "server_us": 3.5})
    assert (row.ours, row.theirs, row.ratio, row.target, row.reached, row.cpu) == (
        "300", "100", "3.00x", "2x", "yes", "1.00 / 3.50",
    )  # fmt: skip


def test_latencies_are_compared_the_other_way_round() -> None:
    row = outcome({"p": 50.0}, {"p": 100.0}, metric="p", lower_is_better=True)
    assert row.ratio == "2.00x"


def test_a_peer_that_loses_messages_is_not_beaten() -> None:
    row = outcome({"rate": 300.0}, {"rate": 100.0, "lost": 50.0, "lost_share": 0.5})
    assert (row.reached, row.notes) == ("not judged (peer lost)", "mosquitto: 50 lost (50.00%)")


def test_losing_messages_reaches_nothing() -> None:
    assert (
        outcome({"rate": 300.0, "lost": 1.0, "lost_share": 0.5}, {"rate": 1.0}).reached
        == "NO (lost)"
    )


def test_a_busy_generator_is_told() -> None:
    row = outcome({"rate": 3.0, "generator_share": 0.97}, {"rate": 1.0})
    assert row.notes == "rowcast: generator-bound (97%)"


def test_a_missing_peer_is_told() -> None:
    case = Case("c", "title", "msg/s", {}, {"amqtt": stats.Target()})
    gone = Outcome(case, {"rowcast": [{"rate": 1.0}], "amqtt": []}, {"amqtt": "pip failed"})
    row = report.rows([gone])[0]
    assert (row.theirs, row.notes) == ("-", "amqtt LEFT OUT: pip failed")


def several() -> Outcome:
    more = (Figure("waits for {sessions} of them", "s", "seconds"),)
    case = Case("c", "first", "msg/s", {"sessions": 5}, {"m": NONE}, group="G", more=more)
    return Outcome(case, {"rowcast": [{"rate": 3.0, "seconds": 2.0, "sessions": 7}], "m": []})


def test_a_case_gives_a_row_for_each_figure_and_its_peers() -> None:
    table = [(row.case, row.peer, row.ours) for row in report.rows([several()])]
    assert table == [("first (msg/s)", "m", "3"), ("waits for 7 of them (s)", "", "2")]


def test_a_title_tells_the_size_that_was_asked_for_when_nothing_was_measured() -> None:
    outcome = several()
    outcome.rounds["rowcast"] = []
    assert report.rows([outcome])[1].case == "waits for 5 of them (s)"


def test_each_group_is_a_table_of_its_own() -> None:
    case = Case("d", "other", "msg/s", {}, {}, group="H")
    text = report.markdown(report.rows([several(), Outcome(case)]), ["a fact"])
    lines = [line for line in text.splitlines() if line.startswith(("**", "- "))]
    assert lines == ["**G**", "**H**", "- a fact"]


def test_update_replaces_what_stands_between_the_markers(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- bench -->\nold\n<!-- /bench -->\nb\n")
    report.update(readme, "new")
    assert readme.read_text() == "a\n<!-- bench -->\nnew\n<!-- /bench -->\nb\n"


def test_update_wants_the_markers(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("nothing\n")
    with pytest.raises(proc.BenchError, match="markers"):
        report.update(readme, "new")


def test_case_names_are_distinct() -> None:
    assert (
        max(len(list(group)) for _, group in itertools.groupby(sorted(c.name for c in CASES))) == 1
    )


def test_every_peer_can_be_started() -> None:
    assert {peer for case in CASES for peer in case.peers} == set(STARTERS)


@pytest.mark.heavy
def test_what_was_declined_of_retained_messages_can_be_measured(tmp_path, capsys, monkeypatch):
    """E32: `scripts/retained index` on a small number; each way finds the same messages."""
    monkeypatch.setattr(sys, "argv", ["scripts/retained", "index", "--count", "2000"])
    retained_cli.main()
    told = capsys.readouterr().out
    for way in ("skip-scan", "append+fold", "topic index + messages"):
        (line,) = (line for line in told.splitlines() if way in line)
        assert "(2) " in line and "(20) " in line, told


@pytest.mark.parametrize(("root", "module"), COMMAND_LINES)
def test_a_revision_is_started_from_its_own_files(root: str, module: str, tmp_path: Path) -> None:
    file = tmp_path / root / (module.replace(".", "/") + ".py")
    file.parent.mkdir(parents=True)
    file.write_text("")
    assert (tmp_path / root, module) == command_line_in(tmp_path)


@pytest.mark.slow
def test_the_time_of_children_counts() -> None:
    """A server may be more than one process: its tables are written by another."""
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    command = [sys.executable, "-c", nested]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 1 == len(proc.descendants(process.pid))
        assert proc.cpu_seconds(process.pid) > 0.3
        process.communicate(b"\n")
    assert 0 == proc.cpu_seconds(process.pid)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cluster", "deadlines", "live", "replay"])
def test_each_measurement_has_a_command_line_of_its_own(name: str) -> None:
    script = Path(__file__).parents[1] / "scripts" / "bench"
    asked = [script, name, "--help"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert told.stdout.startswith(f"usage: scripts/bench {name} "), told.stderr
