"""Publishes one value a second: publish.py SOCKET NAME VALUE..."""

import sys
import time

from namewire import Publisher

path, name, *values = sys.argv[1:]
with Publisher(path) as publisher:
    item = publisher.announce(name)
    for value in values:
        publisher.publish(item, value.encode())
        print(f"{publisher.subscribers(item)} subscribers", flush=True)
        time.sleep(1)
