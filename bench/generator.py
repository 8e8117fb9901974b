"""The load generator's process: one case in JSON as its argument, figures in JSON on its output."""

import gc
import json
import sys
from collections.abc import Callable
from typing import Any

from bench.flow import Flow
from bench.httpload import Requests
from bench.idle import idle
from bench.latency import Paced, one_at_a_time
from bench.offline import Offline
from bench.proc import BenchError
from bench.storm import Storm
from bench.streams import Streams

LOADS: dict[str, Callable[[dict[str, Any]], dict[str, float]]] = {
    "flow": lambda spec: Flow(spec).run(),
    "one": one_at_a_time,
    "paced": lambda spec: Paced(spec).run(),
    "idle": idle,
    "offline": lambda spec: Offline(spec).run(),
    "storm": lambda spec: Storm(spec).run(),
    "requests": lambda spec: Requests(spec).run(),
    "streams": lambda spec: Streams(spec).run(),
}


def main() -> int:
    """Run the load and print its figures, or why there are none."""
    spec = json.loads(sys.argv[1])
    gc.disable()
    try:
        print(json.dumps(LOADS[spec["load"]](spec)))
    except (BenchError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
