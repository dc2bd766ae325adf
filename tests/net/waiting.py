"""Waiting for a condition, with a common timeout."""

import time

# Long enough for a busy machine; a timeout means that the test has failed.
TIMEOUT_S = 60


def until(condition, description, seconds=TIMEOUT_S):
    """Waits until `condition()` returns a true value, and returns it."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {description}")
        time.sleep(0.05)
