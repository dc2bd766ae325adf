"""Two network cards, connected by a cable, that replace the veth pair in the AF_XDP tests:
`NW_CARDS=eth1,eth2`.

While plugged in, a side's card is in its namespace under the name of the veth interface; afterwards
it is moved back and restored. `NW_MEMORY` is the expected memory mode of the driver: `zero-copy`,
or `copy` (the default).
"""

import json
import os
import re
import subprocess
import unittest

from waiting import TIMEOUT_S

NAMES = [name for name in os.environ.get("NW_CARDS", "").split(",") if name]
MEMORY = os.environ.get("NW_MEMORY", "copy")
if NAMES and len(NAMES) != 2:
    raise SystemExit("NW_CARDS: two names with a comma between them, as eth1,eth2")

# State of each card before these tests, by name.
before = {}


def veth_only(test):
    """Skips a test of veth itself when network cards are used."""
    return unittest.skipIf(NAMES, "a test of veth, but NW_CARDS names network cards")(test)


def run(*args):
    return subprocess.run(
        [*map(str, args)], check=True, capture_output=True, text=True, timeout=TIMEOUT_S
    ).stdout


def queues(name):
    """Returns how many combined queues a card has, and their maximum."""
    output = subprocess.run(
        ["ethtool", "-l", name], capture_output=True, text=True, timeout=TIMEOUT_S
    ).stdout
    maximum, current = (re.findall(r"^Combined:\s+(\d+)", output, re.MULTILINE) + [1, 1])[:2]
    return int(current), int(maximum)


def plug(sides, expected):
    """Moves each card into its side's namespace, with this number of queues."""
    for name, side in zip(NAMES, sides):
        if name not in before:
            link = json.loads(run("ip", "-j", "link", "show", name))[0]
            before[name] = link["address"], link["mtu"], *queues(name)
        _, _, _, maximum = before[name]
        if expected > maximum:
            raise unittest.SkipTest(
                f"{name} has {maximum} of the {expected} queues that this needs"
            )
        set_queues(name, expected)
        run("ip", "link", "set", name, "netns", side.netns, "name", f"v{side.letter}")


def set_queues(name, expected):
    if queues(name)[0] != expected:
        run("ethtool", "-L", name, "combined", expected)


def unplug(side):
    """Moves a side's card back."""
    name, card = NAMES["ab".index(side.letter)], f"v{side.letter}"
    if (
        subprocess.run(
            ["ip", "-n", side.netns, "link", "show", card], capture_output=True
        ).returncode
        != 0
    ):
        return
    mac, mtu, count, _ = before[name]
    run("ip", "-n", side.netns, "link", "set", card, "down")
    run("ip", "-n", side.netns, "link", "set", card, "netns", os.getpid(), "name", name)
    run("ip", "link", "set", name, "address", mac, "mtu", mtu)
    set_queues(name, count)
