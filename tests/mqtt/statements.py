"""Every normative statement of MQTT 5.0 and 3.1.1, and what proves it (D60).

Run as a program it prints how many of those about servers are covered; `scripts/test` does so at
its end.
"""

import sys

from statement_row import Statement
from statements_3_operation import OPERATION as OPERATION_3
from statements_3_packets import PACKETS as PACKETS_3
from statements_5_messages import MESSAGES
from statements_5_opening import OPENING
from statements_5_operation import OPERATION
from statements_5_requests import REQUESTS

STATEMENTS: dict[str, list[Statement]] = {
    "5.0": [*OPENING, *MESSAGES, *REQUESTS, *OPERATION],
    "3.1.1": [*PACKETS_3, *OPERATION_3],
}
"""The table, by the version of the specification."""


def coverage(version: str) -> str:
    """Return how much of a version is proved, in one line."""
    rows = [item for item in STATEMENTS[version] if item.server]
    covered = sum(bool(item.tests) for item in rows)
    moot = ", ".join(item.name for item in rows if not item.tests)
    line = f"MQTT {version}: {covered} of {len(rows)} server statements covered by tests"
    return f"{line}; cannot be: {moot}" if moot else line


if __name__ == "__main__":
    for name in STATEMENTS:
        sys.stdout.write(coverage(name) + "\n")
