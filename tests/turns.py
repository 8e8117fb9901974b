"""In which order tests run: what takes long begins first, in each of several processes.

xdist gives each process an even part of the tests, one after another as they are collected, and who
has nothing left takes over half of what another has. A long test that is still to come when all
others are done is waited for, and one that stands behind another long one is never taken over.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

LONG = frozenset({
    "test_e2e_archive_store.py",
    "test_e2e_cluster_archive.py",
    "test_e2e_cluster_change.py",
    "test_e2e_cluster_disk.py",
    "test_e2e_cluster_restore.py",
    "test_e2e_cluster_sites.py",
    "test_e2e_kill_cluster.py",
    "test_e2e_kill_derived.py",
    "test_e2e_kill_export.py",
    "test_e2e_kill_gateway.py",
    "test_e2e_kill_results.py",
    "test_e2e_leaks.py",
    "test_e2e_openapi.py",
    "test_e2e_staged_cluster.py",
    "test_e2e_staged_sites_cluster.py",
    "test_e2e_staged_workers.py",
    "test_interop_durable_streams.py",
    "test_pipeline_asof.py",
    "test_pipeline_cluster.py",
})  # fmt: skip
"""Their longest tests take 10 to 50 s. None shares its server, so any process may run it."""


def long_ones_first(items: Sequence[T], is_long: Callable[[T], bool], processes: int) -> list[T]:
    """Return the items in another order: each even part begins with its share of the long ones."""
    long = [item for item in items if is_long(item)]
    others = iter([item for item in items if not is_long(item)])
    ordered: list[T] = []
    for number in range(processes):
        end = (number + 1) * len(items) // processes
        ordered += long[number::processes]
        ordered += [item for _, item in zip(range(end - len(ordered)), others, strict=False)]
    return ordered + list(others)
