"""What code in ``resources/`` may raise: anything, and none of it may end more than the call."""

import asyncio


def is_mistake(raised: BaseException) -> bool:
    """Whether the code itself has raised this; False: the running task is to end, so raise it.

    SystemExit, as of ``sys.exit``, and KeyboardInterrupt would end the server, and others that are
    no Exception, such as a panic of an extension in Rust, the task. CancelledError is a mistake
    when nobody cancelled the task: then something that the code waited for was cancelled.
    GeneratorExit closes a coroutine or a generator, which has to end.
    """
    if isinstance(raised, GeneratorExit):
        return False
    if not isinstance(raised, asyncio.CancelledError):
        return True
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread without a loop
        return True
    return task is None or not task.cancelling()
