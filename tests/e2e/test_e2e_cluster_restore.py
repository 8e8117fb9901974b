"""A cluster that is gone comes back from the backup of one node, with its archive (M2, O12, K12).

Its tables are those of the backup; what was archived is copied in the object store, where the
files of the former log stay as they are.
"""

import json
import os
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from test_e2e_archive_store import use
from test_e2e_cluster import put, until_same
from test_e2e_cluster_archive import ROUND, Writer, objects, until_archived, until_same_past
from test_e2e_cluster_archive import settings as settings

from clusters import Cluster
from object_store import object_store
from postgres_server import running_postgres
from rowcast.journal.log_replay import last_number
from rowcast.journal.opening import spool_directory
from rowcast.store.backup import applied_in
from rowcast.store.sql_database import FILE_NAME
from serving import PATIENCE_SECONDS, Server, _children, rowcast, wait_until
from talking import Events, Mqtt

pytestmark = pytest.mark.timeout(5 * PATIENCE_SECONDS)


def words(settings):
    return [f"--set={name}={value}" for name, value in settings.items() if name[:7] != "cluster"]


def back_up(node, target, settings):
    """Back up a node, of which nothing is stopped; return the cursor."""
    options = ("--data", node.folder / "data", "--schema", node.schema_file)
    done = rowcast("backup", target, *options, *words(settings))
    assert 0 == done.returncode, done.stderr
    place = settings["log.archive_location"]
    epoch = done.stdout.partition(":")[0]
    assert f"archived events stay at {place}/{epoch}; a restore needs them" in done.stderr
    assert place == json.loads((target / "manifest.json").read_text())["archive_location"]
    return done.stdout.strip()


def restore(source, data, settings):
    """Restore; a restore that would leave the archive behind is refused."""
    done = rowcast("restore", source, "--data", data)
    assert 1 == done.returncode
    place = settings["log.archive_location"]
    assert f"events of this log are archived at {place}" in done.stderr
    assert not data.exists()
    done = rowcast("restore", source, "--data", data, *words(settings))
    assert 0 == done.returncode, done.stderr
    assert "archived files; they are read with log.archive: true" in done.stderr


def begin(stack, cluster):
    """Start the node with the tables first, and then the others."""
    first, *others = cluster.nodes.values()
    stack.push(cluster.__exit__)
    first.launch()
    if "cluster.engine" in first.settings:
        wait_until(lambda: first.numbers, "it numbers")
    for node in others:
        node.launch()
    return cluster.settle()


def fill(cluster, writer):
    """Write, over a death of the sequencer; return what all nodes tell of the past."""
    with Mqtt(cluster.settle().mqtt_port) as client:
        client.publish("plain/kept", b"retained", qos=1)
    writer.write(ROUND)
    dead = cluster.settle()
    dead.kill()
    writer.write(ROUND)
    dead.launch()
    cluster.settle()
    found = until_same_past(cluster, writer)
    until_archived(cluster.settle(), found[ROUND][0])
    return found


def check(cluster, writer, cursor):
    """Check what readers get: those who begin, and those with a cursor of the former log."""
    found = until_same_past(cluster, writer)
    for node in cluster.running:
        assert b"retained" == node.request("GET", "/plain/kept").content
        epoch = node.request("GET", "/health").json()["head"].partition(":")[0]
        seq, n = found[len(found) // 2]
        then = node.request("GET", f"/Counter/a?asof={epoch}:{seq}")
        assert n == then.json()["n"], then.text
        assert httpx.codes.GONE == node.request("GET", f"/Counter/a?from={cursor}").status_code
        with Events(node, f"/Counter/?since={cursor}") as events:
            assert "reset" == events.next().fields["kind"]
        with Events(node, "/Counter/", since=f"{epoch}:{found[0][0]}") as events:
            assert [n for _, n in found[1:]] == [events.next().value["n"] for _ in found[1:]]
    return found


@pytest.mark.parametrize("engine", ["nats", "postgres"])
def test_o12_m2_all_nodes_are_gone_and_come_back(tmp_path, settings, monkeypatch, engine):
    """The first cluster goes on after the backup, and archives what the second one lacks."""
    with ExitStack() as stack:
        use(stack.enter_context(object_store()), monkeypatch)
        if engine == "postgres":
            database = stack.enter_context(running_postgres())
            settings["cluster.engine"] = database.url
        with Cluster(tmp_path / "first", **settings) as first:
            writer = Writer(first)
            found = fill(first, writer)
            cursor = back_up(first.followers[0], tmp_path / "kept", settings)
            assert int(cursor.partition(":")[2]) >= found[-1][0]
            writer.write(ROUND)
            until_archived(first.settle(), found[-1][0])
        shutil.rmtree(tmp_path / "first")
        if engine == "postgres":
            database.ask("DROP SCHEMA rowcast_test CASCADE")
        former = objects(settings)
        old, count = writer.cursors[1], len({n for _, n in found})
        second = Cluster(tmp_path / "second", **settings)
        restore(tmp_path / "kept", second.nodes["a"].folder / "data", settings)
        begin(stack, second)
        writer.cluster = second
        writer.cursors = dict(list(writer.cursors.items())[:count])
        assert found == check(second, writer, old)
        _go_on(second, writer, found, old)
        assert former <= objects(settings)


def _go_on(cluster, writer, found, old):
    """New events have the numbers of those that are gone, and are archived as others."""
    writer.write(ROUND)
    until_archived(cluster.settle(), found[-1][0] + 1)
    sequencer = cluster.settle()
    sequencer.kill()
    writer.write(1)
    sequencer.launch()
    cluster.settle()
    later = check(cluster, writer, old)
    assert found == later[: len(found)]


def test_o12_m2_a_node_is_restored_as_a_server_of_its_own(tmp_path, settings, monkeypatch):
    """While the cluster goes on; and what is left of an archive that is not there is told."""
    with ExitStack() as stack:
        use(stack.enter_context(object_store()), monkeypatch)
        with Cluster(tmp_path / "nodes", **settings) as cluster:
            writer = Writer(cluster)
            found = fill(cluster, writer)
            back_up(cluster.settle(), tmp_path / "kept", settings)
            folder = tmp_path / "alone"
            folder.mkdir()
            restore(tmp_path / "kept", folder / "data", settings)
            writer.write(ROUND)
            later = until_same_past(cluster, writer)
            assert found == later[: len(found)]
        with Server(folder, cluster.nodes["a"].schema_file.read_text(), settings=settings) as alone:
            answer = alone.request("GET", "/Counter/a?from=0")
            assert "rowcast-trimmed" not in answer.headers
            assert found == [(row["_seq"], row["value"]["n"]) for row in answer.json()]
        done = rowcast(
            "restore", tmp_path / "kept", "--data", tmp_path / "wrong" / "data",
            *words(settings | {"log.archive_location": f"{settings['log.archive_location']}-not"}),
        )  # fmt: skip
        assert 0 == done.returncode, done.stderr
        assert "-not has no archived events of " in done.stderr


def test_o12_k12_what_the_only_node_left_has_got_is_in_its_backup(tmp_path):
    """It was killed before it had applied that, and without the others it would not begin."""
    with Cluster(tmp_path / "nodes") as cluster:
        sequencer, left = cluster.settle(), cluster.followers[0]
        put(sequencer, "first", n=0)
        until_same(cluster)
        for pid in _children(left.process.pid):
            if b"nats-server" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGSTOP)
        database = left.folder / "data" / FILE_NAME
        spool = spool_directory(database)
        for n in range(ROUND):
            assert put(sequencer, f"d{n}", n=n).is_success
        wait_until(lambda: last_number(spool) > applied_in(database), "it has got more")
        for node in cluster.running:
            node.kill()
    got = last_number(spool)
    assert got > applied_in(database)
    options = ("--data", left.folder / "data", "--schema", left.schema_file)
    done = rowcast("backup", tmp_path / "kept", *options)
    assert 0 == done.returncode, done.stderr
    assert got == applied_in(database) == applied_in(tmp_path / "kept" / FILE_NAME)
