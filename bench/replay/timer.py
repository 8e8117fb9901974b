"""A program that does nothing but keep times: what the machine alone adds to a spacing.

    python -m bench.replay.timer PORT < seconds.json

It connects to a port, waits for a line, and then sends one at each of the times, on a loop as the
server's.
"""

import asyncio
import json
import sys


async def keep(port: int, places: list[float]) -> None:
    """Send the number of each place in time when it is reached."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await reader.readline()
    loop = asyncio.get_running_loop()
    begin = loop.time()
    for number, place in enumerate(places):
        left = begin + place - loop.time()
        if left > 0:
            await asyncio.sleep(left)
        writer.write(b"%d\n" % number)
        await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(keep(int(sys.argv[1]), json.load(sys.stdin)))
