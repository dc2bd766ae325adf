"""A consumer of python-ndn with a fixed window: reacts to no mark and no delay.

Usage: greedy_consumer.py URI PREFIX WINDOW SECONDS
Prints one JSON object: Data, Nacks and timeouts.
"""

import asyncio
import itertools
import json
import sys
import time

from ndn.appv2 import NDNApp, pass_all
from ndn.client_conf import default_face
from ndn.types import InterestNack, InterestTimeout


async def request(app, prefix, numbers, end, counts):
    """Keeps one Interest of the window outstanding. A lost one is not sent again."""
    while time.monotonic() < end:
        name = f"{prefix}/seg={next(numbers)}"
        try:
            await app.express(name, validator=pass_all, lifetime=4000)
            counts["data"] += 1
        except InterestNack:
            counts["nacks"] += 1
            await asyncio.sleep(0)
        except InterestTimeout:
            counts["timeouts"] += 1


async def consume(app, prefix, window, seconds, counts):
    numbers, end = itertools.count(), time.monotonic() + seconds
    await asyncio.gather(*(request(app, prefix, numbers, end, counts) for _ in range(window)))
    app.shutdown()


def main():
    uri, prefix, window, seconds = sys.argv[1:]
    counts = {"data": 0, "nacks": 0, "timeouts": 0}
    app = NDNApp(face=default_face(uri))
    app.run_forever(after_start=consume(app, prefix, int(window), float(seconds), counts))
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
