"""Workers at a server until it is killed: what every program that kills has in common."""

import random
import threading
from collections.abc import Callable, Iterable
from http.client import HTTPException
from typing import TypeVar

import httpx
from websockets.exceptions import WebSocketException

from serving import Server
from talking import Closed

GONE = (OSError, Closed, HTTPException, httpx.HTTPError, WebSocketException, EOFError)
"""What a client is told by the end of the server."""

L = TypeVar("L")
Worker = Callable[[Server, L, random.Random], None]


def work_until_killed(
    server: Server,
    ledger: L,
    workers: Iterable[Worker[L]],
    rng: random.Random,
    enough: Callable[[list[BaseException]], object],
) -> None:
    """Let all work at once until ``enough`` returns, kill the server, and raise what was wrong.

    In every second round, about, the applier of its log is killed with it. ``enough`` is given the
    list in which the failures of workers come.
    """
    failures: list[BaseException] = []

    def work(worker: Worker[L], seed: float) -> None:
        try:
            worker(server, ledger, random.Random(seed))
        except GONE:
            pass
        except BaseException as failure:  # noqa: BLE001 - told by the main thread
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(job, rng.random())) for job in workers]
    for thread in threads:
        thread.start()
    try:
        enough(failures)
    finally:
        server.kill(children=rng.random() < 0.5)
        for thread in threads:
            thread.join()
    assert not failures, failures
