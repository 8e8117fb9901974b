"""Ends the Java of Spark when its start is interrupted.

PySpark starts Java with Ctrl-C ignored, and waits for the file in which Java says its port. When
that is interrupted it removes the directory of the file and forgets the process. Java cannot write
the file then, and stays for ever: it notices that its starter has gone only after that. PySpark
tells nobody of the process, so it is found where the start was interrupted: in the variables of the
functions that the interrupt has left.
"""

import traceback
from subprocess import Popen, TimeoutExpired

from rowcast.core.pipeline_limits import JAVA_END_SECONDS


def end_started(interrupt: BaseException, seconds: float = JAVA_END_SECONDS) -> None:
    """End the processes that were being started; returns when they are gone."""
    found = {
        value.pid: value
        for frame, _ in traceback.walk_tb(interrupt.__traceback__)
        for value in tuple(frame.f_locals.values())
        if isinstance(value, Popen) and hasattr(value, "pid")
    }
    for process in found.values():
        process.terminate()
    for process in found.values():
        try:
            process.wait(seconds)
        except TimeoutExpired:
            process.kill()
            process.wait()
