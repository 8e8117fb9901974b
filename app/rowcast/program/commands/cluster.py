"""The command ``rowcast cluster``: its nodes, their change, and whether they have the same records.

It uses only the public REST of the nodes.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from itertools import zip_longest
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from rowcast.codecs.registry import JSON
from rowcast.core.errors import Code, Error
from rowcast.program.commands.looks import show_rows
from rowcast.program.commands.output import printable
from rowcast.program.commands.server import UrlOption, client_of
from rowcast.program.settings.cluster import parse_peer
from rowcast_client import Problem, SyncRowcast

NODES: Final = "/$SYS/cluster/nodes/"
TRIES: Final = 10
"""Of a comparison: a node that starts or follows anew answers within some seconds."""
PAUSE_SECONDS: Final = 1.0
"""Between two of them."""
_OF_THE_CUT: Final = frozenset({HTTPStatus.GONE, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})
"""Refusals that a newer position mends."""
FAULT_TOLERANT_NODES_LEAST: Final = 3
"""With fewer nodes the cluster stops when one of them dies."""
LETTERS: Final = 12
"""Of a digest, as it is shown."""

cluster = typer.Typer(
    name="cluster",
    help="Look at the nodes of a cluster, and change them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@cluster.command(name="status")
def cluster_status(url: UrlOption = None) -> None:
    """Print the nodes of a cluster as one of them sees them, one JSON object per line.

    Each has its role (the sequencer, which orders writes, or a follower), whether it is connected,
    the last batch of the log that it has, and how many it is behind; null if not connected.

    Example: rowcast cluster status
    """
    try:
        show_rows(NODES, url)
    except Problem as problem:
        if problem.status != HTTPStatus.NOT_FOUND:
            raise
        raise _no_cluster() from None


@cluster.command()
def join(
    peer: Annotated[str, typer.Argument(help="NAME=HOST:PORT, as its --peer.")],
    url: UrlOption = None,
) -> None:
    """Let a node into a cluster: it has been started, and waits.

    Ask any node that is one already. It is refused while a node is missing or behind. The command
    returns when the copies of the log are in step, so it may take some seconds.

    Example: rowcast cluster join d=10.0.0.4:6222
    """
    name, address = parse_peer(peer)
    body = json.dumps({"address": address}).encode()
    with client_of(url) as client:
        _nodes(client)
        client.request("PUT", _path_of(name), body, {"Content-Type": JSON})
    print(f"node {name} has joined", file=sys.stderr)


@cluster.command()
def leave(
    node: Annotated[str, typer.Argument(help="Its name. It is stopped, or gone for good.")],
    url: UrlOption = None,
    two_remain: Annotated[
        bool, typer.Option("--two-remain", help="Go on with two nodes, of which none may fail.")
    ] = False,
) -> None:
    """Remove a node from a cluster for good: its vote and its copy of the log.

    It is refused while the node runs, and while another one is missing or behind; and where two
    nodes would remain, without --two-remain. The command returns when the copies of the log are in
    step.

    Example: rowcast cluster leave c
    """
    with client_of(url) as client:
        two_left = _leaves_two(client, node)
        if two_left and not two_remain:
            raise _too_few(node)
        client.request("DELETE", _path_of(node))
    print(f"node {node} has left", file=sys.stderr)
    if two_left:
        print("while there are two nodes, both must run; let another one join", file=sys.stderr)


def _no_cluster() -> Error:
    what = "the server is of no cluster; name a node's address with --url"
    return Error(Code.NOT_FOUND, f"{what}, or start one: rowcast serve --cluster NAME")


def _nodes(client: SyncRowcast) -> list[dict[str, Any]]:
    """Return the rows of a cluster's nodes; raises NOT_FOUND for a server of no cluster."""
    try:
        rows: list[dict[str, Any]] = client.request("GET", NODES).json()
    except Problem as problem:
        if problem.status != HTTPStatus.NOT_FOUND:
            raise
        raise _no_cluster() from None
    return rows


def _leaves_two(client: SyncRowcast, node: str) -> bool:
    """Return whether two nodes would remain; one that runs is refused by the cluster itself."""
    rows = {row["node"]: row for row in _nodes(client)}
    known = node in rows and not rows[node]["connected"]
    return known and len(rows) == FAULT_TOLERANT_NODES_LEAST


def _too_few(node: str) -> Error:
    return Error(
        Code.CONFLICT,
        f"without {node} two nodes would remain, of which none may fail: writes need both. "
        f"Start {node} again, on a new machine with an empty data directory and the same name; "
        f"or replace it by a node of another name: rowcast cluster leave {node} --two-remain, "
        "and then rowcast cluster join",
    )


def _path_of(node: str) -> str:
    return NODES + quote(node, safe="")


@cluster.command()
def verify(
    urls: Annotated[list[str], typer.Argument(help="URLs of the nodes, two or more.")],
    table: Annotated[
        list[str] | None, typer.Option("--table", help="Compare only this table; repeatable.")
    ] = None,
) -> None:
    """Compare the records of nodes, as they were at one position of the log.

    It prints a line for each table: its name, its number of records and their digest (SHA-256 of
    the lines of NDJSON, in the order of ids). The exit code is 1 when nodes differ; then it names
    the first record. Writes may go on meanwhile. A node that cannot answer yet, or has no longer
    what was there at the position, is asked again a few times, at the newest position then.

    Example: rowcast cluster verify http://127.0.0.1:9926 http://127.0.0.1:9936
    """
    if len(urls) < 2:
        raise Error(Code.INVALID, "name two nodes or more: rowcast cluster verify URL URL")
    with ExitStack() as closing:
        nodes = [closing.enter_context(client_of(url)) for url in urls]
        same = compare(urls, nodes, table or [])
    if not same:
        raise typer.Exit(1)


def compare(
    urls: Sequence[str],
    nodes: Sequence[SyncRowcast],
    tables: Sequence[str],
    wait: Callable[[float], None] = time.sleep,
) -> bool:
    """Compare tables, by default all; return whether they are the same. Raises an Error.

    What a node refuses for now is asked again: it starts or follows, its history was trimmed below
    the position, or too much has changed since.
    """
    left, same = list(tables), True
    for left_tries in reversed(range(TRIES)):
        try:
            left = left or _tables(nodes[0])
            cut = _newest_of_all(nodes, left)
            print(f"position {cut}", file=sys.stderr)
            while left:
                same &= _is_same(urls, nodes, left[0], cut)
                del left[0]
        except Problem as problem:
            if problem.is_final and problem.status not in _OF_THE_CUT:
                raise
            if not left_tries:
                words = f"the nodes could not be compared, {TRIES} times: {problem.message}"
                raise Error(problem.code, words) from problem
            print(f"not yet: {printable(problem.message)}; asking again", file=sys.stderr)
            wait(max(PAUSE_SECONDS, problem.retry_after))
        else:
            break
    return same


def _tables(node: SyncRowcast) -> list[str]:
    rows = node.request("GET", "/$SYS/schema/").json()
    exported = [row for row in rows if any(one.startswith("@export") for one in row["directives"])]
    if not exported:
        raise Error(Code.INVALID, "this schema exports no table, so there is nothing to compare")
    return [row["path"] for row in exported]


def _newest_of_all(nodes: Sequence[SyncRowcast], tables: Sequence[str]) -> str:
    """Return the newest cursor that all nodes have. Raises CONFLICT for two logs."""
    heads = [
        node.request("GET", f"/{quote(tables[0])}/?limit(1)").headers["rowcast-position"]
        for node in nodes
    ]
    if len({head.partition(":")[0] for head in heads}) > 1:
        raise Error(Code.CONFLICT, f"these nodes have different logs: {', '.join(heads)}")
    return min(heads, key=lambda head: int(head.partition(":")[2]))


def _is_same(urls: Sequence[str], nodes: Sequence[SyncRowcast], name: str, cut: str) -> bool:
    path = f"/{quote(name)}/?asof={quote(cut)}"
    digest, count = hashlib.sha256(), 0
    for rows in zip_longest(*(_lines(node, path) for node in nodes)):
        if len(set(rows)) > 1:
            print(f"{printable(name)}  DIFFERS after {count} equal records:")
            for url, row in zip(urls, rows, strict=True):
                print(f"  {printable(url.rpartition('@')[2])}  {printable(row or 'no record')}")
            return False
        digest.update(f"{rows[0]}\n".encode())
        count += 1
    print(f"{printable(name)}  {count} records  {digest.hexdigest()[:LETTERS]}")
    return True


def _lines(node: SyncRowcast, path: str) -> Iterator[str]:
    return node.lines(path, {"Accept": "application/x-ndjson"})
