"""Runs the interoperability tests against a router: one it starts, or one whose sockets are given.

Started by `run`, inside the virtual environment. The last line is `N passed, N failed, N skipped`.
"""

import argparse
import asyncio
import importlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from harness import TESTS, Failed, Harness, Skipped

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MODULES = (
    "test_python_ndn",
    "test_management",
    "test_nlsr",
    "test_node",
    "test_services",
    "test_networks",
    "test_java",
    "test_files",
    "test_keys",
    "test_ndnd",
    "test_sync",
    "test_sync_python",
)


def arguments():
    p = argparse.ArgumentParser(prog="tests/interop/run", description=__doc__.split("\n")[0])
    p.add_argument("--unix", metavar="PATH", help="sockets of a router that runs already;")
    p.add_argument("--tcp", metavar="HOST:PORT", help="without --unix, `nw run` is started")
    p.add_argument("--udp", metavar="HOST:PORT")
    p.add_argument("--ws", metavar="HOST:PORT")
    p.add_argument(
        "--no-localhop", action="store_true", help="that router does not serve /localhop/nfd"
    )
    p.add_argument("--filter", metavar="REGEX", help="only tests whose name matches")
    p.add_argument("--list", action="store_true")
    p.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    return p.parse_args()


def free_port(kind) -> int:
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# Defaults except addresses, and neighbours may register: NDNts does so over UDP, with a digest as
# signature.
CONFIG = """\
[faces.unix]
path = "{unix}"

[faces.tcp]
listen = ["{tcp}"]

[faces.udp]
listen = ["{udp}"]

[faces.websocket]
listen = ["{ws}"]
local_origins = ["http://localhost:8080"]

[management]
digest = "anywhere"
localhop = "anywhere"

[pubsub]
enabled = true
domain = false
"""


class Router:
    """`nw run` in a directory of its own."""

    def __init__(self, binary: Path, scratch: Path):
        self.unix = str(scratch / "nw.sock")
        self.tcp = f"127.0.0.1:{free_port(socket.SOCK_STREAM)}"
        self.udp = f"127.0.0.1:{free_port(socket.SOCK_DGRAM)}"
        self.ws = f"127.0.0.1:{free_port(socket.SOCK_STREAM)}"
        config = scratch / "nw.toml"
        config.write_text(CONFIG.format(unix=self.unix, tcp=self.tcp, udp=self.udp, ws=self.ws))
        self.log = open(scratch / "nw.log", "wb")
        self.process = subprocess.Popen(
            [str(binary), "run", "--config", str(config)],
            stdout=self.log,
            stderr=subprocess.STDOUT,
            cwd=scratch,
        )
        end = time.monotonic() + 10
        while not self.accepts():
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise SystemExit(
                    f"nw run did not come up:\n{(scratch / 'nw.log').read_text()[-2000:]}"
                )
            time.sleep(0.02)

    def accepts(self) -> bool:
        # The socket of publish/subscribe comes later than that of NDN.
        try:
            for path in (self.unix, self.unix.removesuffix(".sock") + ".pubsub.sock"):
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(path)
            return True
        except OSError:
            return False

    def stop(self) -> str:
        """Ends the router by SIGTERM. Returns the reason if it did not end cleanly."""
        if self.process.poll() is not None:
            return f"the router had ended with {self.process.returncode}"
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(5)
            return "" if code == 0 else f"the router ended with {code} on SIGTERM"
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "the router did not end within 5 s of SIGTERM"


async def run_tests(h: Harness, picked) -> tuple[int, int, int]:
    passed = failed = skipped = 0
    for name, limit, fn in picked:
        began = time.monotonic()
        why, verdict = "", "ok"
        try:
            await asyncio.wait_for(fn(h), limit)
        except Skipped as e:
            verdict, why = "skipped", str(e)
        except Failed as e:
            verdict, why = "FAIL", str(e)
        except asyncio.TimeoutError:
            verdict, why = "FAIL", f"not done within {limit:.0f} s"
        # A library that throws is a failed test, shown with its place.
        except Exception as e:  # noqa: BLE001
            at = traceback.extract_tb(e.__traceback__)[-1]
            verdict, why = (
                "FAIL",
                f"{type(e).__name__}: {e} at {os.path.basename(at.filename)}:{at.lineno}",
            )
        await h.stop_processes()
        passed, failed, skipped = (
            passed + (verdict == "ok"),
            failed + (verdict == "FAIL"),
            skipped + (verdict == "skipped"),
        )
        print(
            f"{verdict:7} {name} ({time.monotonic() - began:.1f} s){': ' + why if why else ''}",
            flush=True,
        )
    return passed, failed, skipped


def main() -> int:
    args = arguments()
    for m in MODULES:
        importlib.import_module(m)
    picked = [t for t in TESTS if args.filter is None or re.search(args.filter, t[0])]
    if args.list:
        print("\n".join(name for name, _, _ in picked))
        return 0
    binary = Path(os.environ.get("NW_BIN") or ROOT / "target" / "release" / "nw")
    scratch = Path(tempfile.mkdtemp(prefix="nw-interop-"))
    router, trouble = None, ""
    try:
        if args.unix:
            unix, tcp, udp, ws, localhop = (
                args.unix,
                args.tcp,
                args.udp,
                args.ws,
                not args.no_localhop,
            )
        else:
            if not binary.exists():
                raise SystemExit(
                    f"{binary} does not exist: cargo build --release -p nw-cli, or set NW_BIN"
                )
            router = Router(binary, scratch)
            unix, tcp, udp, ws, localhop = router.unix, router.tcp, router.udp, router.ws, True
        h = Harness(
            unix,
            tcp,
            udp,
            ws,
            scratch,
            args.cache,
            str(binary) if binary.exists() else None,
            localhop,
        )
        passed, failed, skipped = asyncio.run(run_tests(h, picked))
    finally:
        if router:
            trouble = router.stop()
    if trouble:
        print(f"FAIL    router: {trouble}\n{(scratch / 'nw.log').read_text()[-2000:]}")
        failed += 1
    if failed:
        print(f"left for inspection: {scratch}")
    else:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
