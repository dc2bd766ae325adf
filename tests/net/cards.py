"""Two network cards that stand in for the virtual cable of AF_XDP's tests: `NW_CARDS=eth1,eth2`, which a real cable joins.

A side's card is in its namespace, under the name that the virtual one would have, while it is plugged in; after that it is back where it was, as it was.
`NW_MEMORY` says what their driver is expected to do with frames: `zero-copy`, or `copy` (where it is not set)."""

import json
import os
import re
import subprocess
import unittest

from waiting import PATIENCE_S

NAMES = [name for name in os.environ.get("NW_CARDS", "").split(",") if name]
MEMORY = os.environ.get("NW_MEMORY", "copy")
if NAMES and len(NAMES) != 2:
    raise SystemExit("NW_CARDS: two names with a comma between them, as eth1,eth2")

# How each was before these tests, by name.
before = {}


def of_veth(test):
    """For what is about a virtual cable itself."""
    return unittest.skipIf(NAMES, "about virtual cables, and NW_CARDS says others")(test)


def run(*words):
    return subprocess.run([*map(str, words)], check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout


def queues(name):
    """Of a card here: those that both receive and send, and how many there may be."""
    told = subprocess.run(["ethtool", "-l", name], capture_output=True, text=True, timeout=PATIENCE_S).stdout
    most, now = (re.findall(r"^Combined:\s+(\d+)", told, re.MULTILINE) + [1, 1])[:2]
    return int(now), int(most)


def plug(sides, wanted):
    """Puts each into its side's namespace, with so many queues."""
    for name, side in zip(NAMES, sides):
        if name not in before:
            link = json.loads(run("ip", "-j", "link", "show", name))[0]
            before[name] = link["address"], link["mtu"], *queues(name)
        _, _, _, most = before[name]
        if wanted > most:
            raise unittest.SkipTest(f"{name} has {most} of the {wanted} queues that this needs")
        set_queues(name, wanted)
        run("ip", "link", "set", name, "netns", side.netns, "name", f"v{side.letter}")


def set_queues(name, wanted):
    if queues(name)[0] != wanted:
        run("ethtool", "-L", name, "combined", wanted)


def unplug(side):
    """Takes a side's back."""
    name, card = NAMES["ab".index(side.letter)], f"v{side.letter}"
    if subprocess.run(["ip", "-n", side.netns, "link", "show", card], capture_output=True).returncode != 0:
        return
    mac, mtu, count, _ = before[name]
    run("ip", "-n", side.netns, "link", "set", card, "down")
    run("ip", "-n", side.netns, "link", "set", card, "netns", os.getpid(), "name", name)
    run("ip", "link", "set", name, "address", mac, "mtu", mtu)
    set_queues(name, count)
