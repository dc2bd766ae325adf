"""The wall clock is set while the router runs, as NTP does after a start without a battery clock,
or as after suspend."""

import json
import os
import shutil
import subprocess
import time
import unittest
from pathlib import Path

from command_line import NW, TIMEOUT_S, CommandLine

# A preloaded library that shifts CLOCK_REALTIME of a program by the seconds in a file, and no other
# clock.
SHIM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset_s(void) {
    const char *path = getenv("CLOCK_OFFSET_FILE");
    char text[32];
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) return 0;
    long len = read(file, text, sizeof text - 1);
    close(file);
    if (len <= 0) return 0;
    text[len] = 0;
    return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += offset_s();
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
"""


class ClockStep(CommandLine):
    def setUp(self):
        super().setUp()
        compiler = next(
            (found for found in map(shutil.which, ("cc", "gcc", "clang")) if found), None
        )
        if compiler is None:
            self.skipTest("no C compiler (cc, gcc, clang): the clock can't be moved")
        library, self.offset = Path(self.folder) / "clock.so", Path(self.folder) / "offset"
        source = Path(self.folder) / "clock.c"
        source.write_text(SHIM)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        self.offset.write_text("0")
        before = dict(os.environ)
        os.environ.update(LD_PRELOAD=str(library), CLOCK_OFFSET_FILE=str(self.offset))
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))

    def nw(self, router, *args, ahead_s=None):
        """Runs a command with the router's clock, or with one that is ahead of it."""
        env = router.environment()
        if ahead_s is not None:
            offset_file = Path(self.folder) / "other-offset"
            offset_file.write_text(str(int(self.offset.read_text()) + ahead_s))
            env["CLOCK_OFFSET_FILE"] = str(offset_file)
        completed = subprocess.run(
            [NW, *args], env=env, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        return completed.returncode, completed.stdout, completed.stderr

    def test_commands_after_clock_step_are_accepted(self):
        router = self.router()
        for step_s in (0, 3600, -3600, 400 * 86_400, -20 * 86_400):
            with self.subTest(step_s=step_s):
                self.offset.write_text(str(step_s))
                code, _, err = self.nw(router, "route", "add", "/a", "udp4://127.0.0.1:7999")
                self.assertEqual((code, err), (0, ""))
                code, _, err = self.nw(
                    router, "route", "add", "/b", "udp4://127.0.0.1:7999", ahead_s=12_000
                )
                self.assertEqual(code, 6)
                self.assertRegex(
                    err,
                    r"refused \(403\): the command's timestamp differs from the router's clock by 3 h 20 min \(limit 120 s\)\. "
                    r"Check the time on both machines\.\n$",
                )

    def test_signer_keys_after_clock_set_back_are_accepted(self):
        router = self.router(extra='[management]\ndigest = "nowhere"\n')
        store = ["--store", str(Path(self.folder) / "keys")]
        code, _, err = self.nw(router, "key", "generate", "/operator", *store)
        self.assertEqual(code, 0, err)
        for step_s in (86_400, 0):
            self.offset.write_text(str(step_s))
            # More signers than the router keeps separate entries for.
            for _ in range(35):
                completed = self.nw(
                    router,
                    "route",
                    "add",
                    "/a",
                    "udp4://127.0.0.1:7999",
                    "--key",
                    "/operator",
                    *store,
                )
                self.assertEqual(completed[0], 0, (step_s, completed))

    def test_status_and_captures_show_current_time(self):
        router = self.router()
        self.offset.write_text("864000")
        code, out, err = self.nw(router, "status", "--json")
        self.assertEqual(code, 0, err)
        status = json.loads(out)
        status = status.get("forwarder", status)
        self.assertAlmostEqual(
            status["current_timestamp_ms"] / 1000, time.time() + 864_000, delta=TIMEOUT_S
        )
        uptime_s = (status["current_timestamp_ms"] - status["start_timestamp_ms"]) / 1000
        self.assertTrue(0 <= uptime_s < 60, uptime_s)
        tap = subprocess.Popen(
            [NW, "tap", "-c", "1", "--json"],
            env=router.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(lambda: tap.poll() is not None or tap.kill())
        time.sleep(1)
        # The clock is set once more while the capture runs.
        self.offset.write_text("-864000")
        self.nw(router, "peek", "/nothing", "--lifetime", "100")
        out, err = tap.communicate(timeout=TIMEOUT_S)
        captured_s = json.loads(out.splitlines()[0])["at_ns"] / 1e9
        self.assertAlmostEqual(captured_s, time.time() - 864_000, delta=TIMEOUT_S, msg=err)


if __name__ == "__main__":
    unittest.main()
