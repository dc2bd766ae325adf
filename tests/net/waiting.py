"""How long these tests wait, and for what."""

import time

# A machine may be busy with much else; who waits in vain has failed anyhow.
PATIENCE_S = 60


def until(holds, what, seconds=PATIENCE_S):
    """What `holds` gives once it is true."""
    end = time.monotonic() + seconds
    while True:
        got = holds()
        if got:
            return got
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.05)
