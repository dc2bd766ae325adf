#!/usr/bin/env python3
"""NDN conformance suite: hand-made bytes over real sockets against any router.

    run.py --unix /run/nfd/nfd.sock --tcp 127.0.0.1:6363 --udp 127.0.0.1:6363

Needs nothing but Python >= 3.10. Management goes over the unix socket, or over TCP if none is
given.
"""

import argparse
import asyncio
import fnmatch
import importlib
import json
import logging
import pkgutil
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cases  # noqa: E402
from kit import case as kit  # noqa: E402


def host_port(text: str):
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--unix", metavar="PATH", help="stream socket of the router")
    p.add_argument(
        "--tcp",
        metavar="HOST:PORT",
        type=host_port,
        help="its TCP listener (loopback: local scope)",
    )
    p.add_argument("--udp", metavar="HOST:PORT", type=host_port, help="its UDP listener")
    p.add_argument(
        "--pid", type=int, help="its process id: hostile cases then also watch its memory"
    )
    p.add_argument("--filter", metavar="REGEX", help="only cases whose id@transport or tag matches")
    p.add_argument("ids", nargs="*", metavar="ID@TRANSPORT", help="only these cases")
    p.add_argument(
        "--expect",
        metavar="FILE",
        type=Path,
        help="ids (with * and ?) that are known to fail, one a line",
    )
    p.add_argument(
        "--complete",
        action="store_true",
        help="the router claims everything: a case that it does not let run has failed",
    )
    p.add_argument("--jobs", type=int, default=24, help="cases side by side (24)")
    p.add_argument("--list", action="store_true", help="print the cases and stop")
    p.add_argument(
        "--json", action="store_true", help="one JSON object per case on standard output"
    )
    p.add_argument("-v", "--verbose", action="store_true", help="also print what passed")
    return p.parse_args()


def known_failures(path: Path | None) -> list[str]:
    if path is None:
        return []
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def pick(pattern: str | None):
    picked = []
    for c in sorted(kit.CASES, key=lambda c: c.id):
        for transport in c.on:
            text = " ".join([f"{c.id}@{transport}", *c.tags])
            if pattern is None or re.search(pattern, text):
                picked.append((c, transport))
    return picked


def listing(picked, as_json: bool):
    for c in dict.fromkeys(c for c, _ in picked):
        if as_json:
            print(
                json.dumps(
                    {"id": c.id, "spec": c.spec, "says": c.requirement, "on": c.on, "tags": c.tags}
                )
            )
        else:
            tags = f"  [{', '.join(c.tags)}]" if c.tags else ""
            print(f"{c.id}  ({'/'.join(c.on)}){tags}\n    {c.spec}\n    {c.requirement}")


def print_skipped(outcomes, out):
    """Prints a line for each reason; tools/check counts these lines."""
    by_reason = {}
    for o in outcomes:
        if o.verdict == "skipped":
            by_reason.setdefault(o.reason, []).append(o.id)
    for reason, ids in by_reason.items():
        print(f"skipped: {reason} ({len(ids)}: {', '.join(sorted(ids))})", file=out)


def main() -> int:
    args = arguments()
    for module in sorted(pkgutil.iter_modules(cases.__path__), key=lambda m: m.name):
        importlib.import_module(f"cases.{module.name}")
    picked = pick(args.filter)
    if args.ids:
        picked = [(c, on) for c, on in picked if f"{c.id}@{on}" in args.ids]
    if args.list:
        listing(picked, args.json)
        return 0
    if not args.unix and not args.tcp:
        print("give --unix or --tcp: routes are made over a local face", file=sys.stderr)
        return 2
    patterns = known_failures(args.expect)
    router = kit.Router(args.unix, args.tcp, args.udp, args.pid)

    def report(o):
        if args.complete and o.verdict == "skipped":
            o.verdict, o.reason = "failed", f"did not run: {o.reason}"
        o.expected = any(
            fnmatch.fnmatchcase(o.id, p) or fnmatch.fnmatchcase(o.case.id, p) for p in patterns
        )
        if args.json:
            print(
                json.dumps(
                    {
                        "id": o.case.id,
                        "transport": o.transport,
                        "verdict": o.verdict,
                        "why": o.reason,
                        "expected": o.expected,
                        "seconds": round(o.seconds, 3),
                        "spec": o.case.spec,
                        "tags": o.case.tags,
                    }
                ),
                flush=True,
            )
        elif o.verdict == "failed" and not o.expected:
            print(
                f"FAIL {o.id}\n     {o.case.requirement}\n     {o.case.spec}\n     {o.reason}",
                flush=True,
            )
        elif o.verdict == "passed" and o.expected:
            print(f"note {o.id} passed although a failure was expected", flush=True)
        elif args.verbose:
            print(
                f"{o.verdict:7} {o.id}{' (expected)' if o.expected else ''} {o.seconds:.2f} s {o.reason}",
                flush=True,
            )

    # Hides asyncio's warnings about writes to a connection that the router closed.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    began = time.monotonic()
    outcomes = asyncio.run(kit.run_all(router, picked, report, args.jobs))
    passed = sum(o.verdict == "passed" for o in outcomes)
    failed = sum(o.verdict == "failed" and not o.expected for o in outcomes)
    known = sum(o.verdict == "failed" and o.expected for o in outcomes)
    skipped = sum(o.verdict == "skipped" for o in outcomes)
    out = sys.stderr if args.json else sys.stdout
    print_skipped(outcomes, out)
    if known:
        print(f"{known} failed as expected", file=out)
    print(
        f"{len({o.case.id for o in outcomes})} cases in {time.monotonic() - began:.1f} s", file=out
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped", file=out)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
