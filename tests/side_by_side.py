"""Runs test files of the current folder side by side, so that one waits while another works.

    side_by_side.py [--alone FILE]... FILE...

Two files run at a time, in the order given: name the longest first. A file named with --alone runs
while no other does. What a file prints is printed as a whole when it has ended, as of unittest.
"""

import argparse
import concurrent.futures
import subprocess
import sys
import time

WORKERS = 2


def run(module):
    """Runs one test file and prints its output. Returns whether it passed."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "unittest", "-v", module],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    print(f"{done.stdout}{module}: {time.monotonic() - began:.0f} s\n", flush=True)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", metavar="FILE", nargs="*")
    parser.add_argument("--alone", metavar="FILE", action="append", default=[])
    options = parser.parse_args()
    modules = [file.removesuffix(".py") for file in options.files]
    alone = [file.removesuffix(".py") for file in options.alone]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        passed = list(pool.map(run, [module for module in modules if module not in alone]))
    passed += [run(module) for module in alone]
    return 0 if all(passed) and passed else 1


if __name__ == "__main__":
    sys.exit(main())
