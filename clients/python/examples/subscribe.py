"""Prints publications: subscribe.py SOCKET PATTERN [COUNT]"""

import itertools
import sys

from namewire import Lost, Subscriber

path, pattern, *count = sys.argv[1:]
with Subscriber(path) as subscriber:
    subscriber.subscribe(pattern)
    print("subscribed", flush=True)
    for found in itertools.islice(subscriber, *map(int, count)):
        if isinstance(found, Lost):
            print(f"{found.name}: {found.lost} lost", flush=True)
        else:
            print(f"{found.name} {found.payload.decode(errors='replace')}", flush=True)
