"""Placement, copies of the FIB and memory on a machine of two memory nodes with two processors
each, with its network cards on the second node: as `run` creates it."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "net"))
from waiting import TIMEOUT_S, until

NW = os.environ["NW_BIN"]
PROCESSORS = {0, 1, 2, 3}
ROUTES = 20_000


def run(*args, **options):
    return subprocess.run(
        [NW, *map(str, args)],
        check=True,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        **options,
    ).stdout


class Numa(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="nw-numa-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.socket = self.folder / "nw.sock"
        self.env = {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{self.socket}"}

    def start(self, extra="", forwarder="", begin=None):
        """Starts the router with AF_XDP on the card of the second node. `begin`: the processor on
        which the first thread starts."""
        file, self.log = self.folder / "nw.toml", self.folder / "log"
        file.write_text(
            f'[faces.unix]\npath = "{self.socket}"\n[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = ["0.0.0.0:6363"]\n'
            f'[log]\nformat = "json"\n[forwarder]\n{forwarder}\n{extra}'
        )

        def there():
            if begin is not None:
                os.sched_setaffinity(0, {begin})
                os.sched_setaffinity(0, PROCESSORS)

        log = open(self.log, "w")
        self.addCleanup(log.close)
        self.router = subprocess.Popen(
            [NW, "run", "-c", file], stderr=log, stdin=subprocess.DEVNULL, preexec_fn=there
        )
        self.addCleanup(self.stop)
        until(
            lambda: '"running"' in self.log.read_text() or self.router.poll() is not None,
            "the router runs",
        )
        self.assertIsNone(self.router.poll(), self.log.read_text())

    def stop(self):
        if self.router.poll() is None:
            self.router.terminate()
        self.assertEqual(self.router.wait(TIMEOUT_S), 0)

    def nw(self, *args):
        return run(*args, env=self.env)

    def log_lines(self, text):
        return [line for line in self.log.read_text().splitlines() if text in line]

    def threads(self):
        """Returns the processors on which each thread may run, by thread name."""
        tasks = Path(f"/proc/{self.router.pid}/task").iterdir()
        return {
            (task / "comm").read_text().strip(): os.sched_getaffinity(int(task.name))
            for task in tasks
        }

    def memory(self):
        """Returns MiB of anonymous memory by node."""
        found = [0, 0]
        for line in Path(f"/proc/{self.router.pid}/numa_maps").read_text().splitlines():
            if "file=" not in line:
                page = int(re.search(r"kernelpagesize_kB=(\d+)", line + " kernelpagesize_kB=4")[1])
                for node, pages in re.findall(r" N(\d)=(\d+)", line):
                    found[int(node)] += int(pages) * page / 1024
        return found

    def show(self, what, value):
        print(f"\n  {what}: {value}", file=sys.stderr)

    def all_shards_answer(self, prefix):
        """Checks that names of every shard are routed."""
        before = [shard["packets"] for shard in json.loads(self.nw("status", "--json"))["shards"]]
        server = subprocess.Popen(
            [NW, "ping-server", prefix],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            server.stdout.readline()
            last = self.nw("ping", prefix, "--count", 40, "--interval", 5, "--json").splitlines()[
                -1
            ]
            self.assertEqual(json.loads(last)["answered"], 40, last)
        finally:
            server.terminate()
            server.communicate()
        after = [shard["packets"] for shard in json.loads(self.nw("status", "--json"))["shards"]]
        for shard, (then, now) in enumerate(zip(before, after)):
            self.assertGreater(now, then, f"shard {shard} had no part of it")

    def add_many_routes(self):
        file = self.folder / "routes"
        face = json.loads(self.nw("face", "create", "udp4://192.0.2.77:6363", "--json"))["face_id"]
        file.write_text("".join(f"/many/{at % 97}/of/them/{at} {face}\n" for at in range(ROUTES)))
        before = self.memory()
        self.nw("route", "import", file)
        time.sleep(1)
        return [round(now - then, 1) for then, now in zip(before, self.memory())]

    def test_status_shows_nodes_and_cards(self):
        output = run("status", "--hardware")
        self.show("nw status --hardware", "\n" + output)
        for cpu in PROCESSORS:
            self.assertRegex(output, rf"processors {cpu}, memory node {cpu // 2},")
        self.assertEqual(output.count("memory node 1, 1 receive queues"), 2, "both cards")
        self.assertRegex(output, r"2 threads: processors [23] [23]\n")
        self.assertRegex(output, r"4 threads: processors [23] [23] [01] [01]\n")

    def test_default_places_two_threads_on_node_of_card(self):
        self.start()
        threads = self.threads()
        self.show("threads", threads)
        self.assertEqual(threads["nw"] | threads["shard 1"], {2, 3})
        self.assertEqual((len(threads["nw"]), len(threads["shard 1"])), (1, 1))
        self.assertEqual(self.log_lines("read one FIB"), [], "each has its own")
        self.all_shards_answer("/numa")

    def test_start_memory_of_first_thread_is_on_its_node(self):
        """Frames of AF_XDP and the configuration's routes are on the node of the card, or of the
        configured processor of the first thread, and not where the process started."""
        routes = "".join(
            f'[[route]]\nprefix = "/first/{at}"\nface = "udp4://192.0.2.77:6363"\n'
            for at in range(3000)
        )
        xdp = f'[faces.xdp]\ninterfaces = ["eth0"]\n[[face]]\nuri = "udp4://192.0.2.77:6363"\npersistency = "permanent"\n{routes}'
        for begin, forwarder, node in ((3, "cpus = [0, 1]", 0), (0, "", 1)):
            self.start(xdp, forwarder, begin)
            self.assertTrue(self.log_lines("zero-copy"), self.log.read_text())
            used_mib = self.memory()
            self.show(
                f"begun on {begin}, to run on node {node}: MiB by node",
                [round(mib, 1) for mib in used_mib],
            )
            self.assertGreater(used_mib[node], 12, "frames alone are 12 MiB")
            self.assertLess(used_mib[1 - node], used_mib[node] / 5)
            for name, processors in self.threads().items():
                if not name.startswith("shard") and name != "nw":
                    self.assertEqual(processors, PROCESSORS, f"{name} may run anywhere")
            self.stop()

    def test_four_threads_share_fib_copies_by_node(self):
        self.start(forwarder="shards = 4")
        threads = self.threads()
        self.show("threads", threads)
        self.assertEqual(threads["nw"] | threads["shard 1"], {2, 3})
        self.assertEqual(threads["shard 2"] | threads["shard 3"], {0, 1})
        self.assertEqual(threads["routes 0"], {0, 1})
        shared = self.log_lines("read one FIB")
        self.show("log", shared)
        self.assertEqual(len(shared), 1)
        self.assertIn("[2, 3]", shared[0])
        self.all_shards_answer("/numa/4")
        growth = self.add_many_routes()
        self.show(f"{ROUTES} routes, MiB more by node", growth)
        # The FIB of the first shard with its routes, that of the second, and two copies for the
        # other two.
        self.assertGreater(growth[0], 0.3 * growth[1])
        self.all_shards_answer("/numa/4/later")
        self.show("nw status --shards", "\n" + self.nw("status", "--shards"))

    def test_eight_threads_share_fib_by_node(self):
        self.start(forwarder="shards = 8")
        shared = self.log_lines("read one FIB")
        self.show("log", shared)
        self.assertEqual(len(shared), 2)
        self.assertIn("[2, 3, 6, 7]", shared[0])
        self.assertIn("[1, 4, 5]", shared[1])
        threads = self.threads()
        self.assertEqual((threads["routes 0"], threads["routes 1"]), ({0, 1}, {2, 3}))
        growth = self.add_many_routes()
        self.show(f"{ROUTES} routes, MiB more by node", growth)
        self.assertGreater(growth[0], 0.3 * growth[1])
        self.assertGreater(
            growth[1], growth[0], "three copies and the list of routes against two copies"
        )
        self.all_shards_answer("/numa/8")

    def test_unbound_threads_may_run_anywhere(self):
        self.start(forwarder="shards = 3\npin = false")
        self.assertEqual(set(map(frozenset, self.threads().values())), {frozenset(PROCESSORS)})
        self.assertEqual(len(self.log_lines("read one FIB")), 1)
        self.all_shards_answer("/numa/3")

    def test_chosen_processors_are_used(self):
        self.start(forwarder="shards = 3\ncpus = [0, 3, 2]")
        threads = self.threads()
        self.assertEqual(
            (threads["nw"], threads["shard 1"], threads["shard 2"], threads["routes 1"]),
            ({0}, {3}, {2}, {2, 3}),
        )
        self.all_shards_answer("/numa/chosen")


if __name__ == "__main__":
    unittest.main()
