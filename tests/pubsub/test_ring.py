"""Readers in Python and C skip records of other items, and find what one that reads all finds."""

import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

from namewire.ring import (
    ELSEWHERE,
    FIRST,
    LAST,
    MISSING,
    OTHERS_MAX,
    SKIP_ITEMS_MAX,
    RingReader,
    RingWriter,
)
from node import ROOT

SANITIZERS = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
RING_BYTES, ITEMS = 1 << 16, 64
#: Items that are published, and those of them that are followed.
PUBLISHED, FOLLOWED = 6, 3
ROUNDS = 40


class PythonReader:
    def __init__(self, ring):
        self.reader = RingReader(ring.file, RING_BYTES, ITEMS)

    def follow(self, item, position, after):
        self.reader.follow(item, position, after)

    def read(self):
        found = iter(self.reader.read, None)
        return [(item, 0 if data is None else number, lost) for item, number, data, lost in found]

    def end(self, item, last):
        self.reader.ends[item] = last
        found = self.read()
        return found, self.reader.unfollow(item)

    def close(self):
        self.reader.close()


class PlainReader(PythonReader):
    """Follows too many items to skip anything."""

    def __init__(self, ring):
        super().__init__(ring)
        for item in range(PUBLISHED, PUBLISHED + SKIP_ITEMS_MAX + 1):
            self.reader.follow(item, 0, 0)


class CReader:
    def __init__(self, ring, program):
        words = [program, str(ring.file), str(RING_BYTES), str(ITEMS)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(words, pass_fds=[ring.file], text=True, **pipes)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n").split(",")

    def follow(self, item, position, after):
        self.ask(f"follow {item} {position} {after}")

    @staticmethod
    def parse(words):
        rows = [[int(number) for number in word.split()] for word in words]
        return [(item, number if length else 0, lost) for item, number, length, lost in rows]

    def read(self):
        return self.parse(self.ask("read")[:-1])

    def end(self, item, last):
        *found, accounted = self.ask(f"end {item} {last}")
        return self.parse(found), int(accounted)

    def close(self):
        _, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err


class Trial:
    """A ring, its readers, and what each of them found."""

    def __init__(self, rng, readers):
        self.rng, self.ring = rng, RingWriter(RING_BYTES, ITEMS)
        self.readers = [new(self.ring) for new in readers]
        self.sequences, self.elsewhere = [0] * PUBLISHED, [0] * PUBLISHED
        self.found = [{item: [] for item in range(FOLLOWED)} for _ in self.readers]
        for reader in self.readers:
            for item in range(FOLLOWED):
                reader.follow(item, 0, 0)

    def publish(self, item, length, limit=None, reads_between=False):
        self.sequences[item] += 1
        limit = limit or self.ring.record_bytes_max
        for start in range(0, length, limit):
            part = bytes(min(limit, length - start))
            is_last = start + len(part) == length
            flags = (FIRST if start == 0 else 0) | (LAST if is_last else 0)
            self.ring.write(item, self.sequences[item], length, start, flags, part)
            if reads_between and self.rng.random() < 0.2:
                self.read()

    def record(self, number, found):
        for item, sequence, lost in found:
            self.found[number][item].append((sequence, lost))

    def read(self):
        for number, reader in enumerate(self.readers):
            self.record(number, reader.read())

    def end(self, item):
        """Ends an item; returns the publications that each reader found, and how many it lost."""
        results = []
        for number, reader in enumerate(self.readers):
            found, accounted = reader.end(item, self.sequences[item])
            self.record(number, found)
            rows = self.found[number][item]
            lost = sum(lost for _, lost in rows) + self.sequences[item] - accounted
            results.append(([sequence for sequence, _ in rows if sequence], lost))
            self.found[number][item] = []
        return results

    def restart(self, item):
        """Gives the number of an item with unread publications to another one."""
        last, self.sequences[item] = self.sequences[item], 0
        self.ring.start_item(item)
        self.publish(item, 10)
        after, self.sequences[item] = self.sequences[item], last
        results = self.end(item)
        self.check(item, results)
        self.sequences[item], self.elsewhere[item] = after, 0
        for number, reader in enumerate(self.readers):
            reader.follow(item, self.ring.tail, after)
            self.found[number][item] = [(sequence, 0) for sequence in range(1, after + 1)]

    def check(self, item, results):
        last, (plain, _) = self.sequences[item], results[0]
        for found, lost in results:
            assert found == sorted(set(found))
            missing = set(plain) - set(found)
            assert not missing, missing
            assert last - self.elsewhere[item] <= len(found) + lost <= last, (lost, last)

    def step(self):
        item, rng = self.rng.randrange(PUBLISHED), self.rng
        match rng.choices(range(8), [6, 1, 5, 1, 1, 1, 4, 3])[0]:
            case 0:
                self.publish(item, rng.randrange(1, 300))
            case 1:
                self.publish(item, rng.randrange(1, 40_000), None, rng.random() < 0.5)
            case 7:
                self.publish(item, rng.randrange(100, 5000), 100, rng.random() < 0.8)
            case 2:
                for _ in range(rng.randrange(80)):
                    self.publish(rng.randrange(FOLLOWED, PUBLISHED), 30)
            case 3:
                for _ in range(rng.randrange(300, 1500)):
                    self.publish(item, 30)
            case 4:
                self.sequences[item] += rng.randrange(1, 4)
                flags = rng.choice([MISSING, ELSEWHERE])
                self.elsewhere[item] += flags == ELSEWHERE
                self.ring.write(item, self.sequences[item], 0, 0, flags | LAST, b"")
            case 5:
                self.restart(rng.randrange(FOLLOWED))
            case 6:
                self.read()

    def run(self):
        for _ in range(self.rng.randrange(10, 60)):
            self.step()
        for item in range(FOLLOWED):
            self.check(item, self.end(item))
        self.close()

    def close(self):
        for reader in self.readers:
            reader.close()
        self.ring.close()
        os.close(self.ring.file)


class RingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        program = Path(folder.name) / "read_ring"
        library = ROOT / "clients/c"
        sources = [library / "ring.c", library / "connection.c", library / "names.c"]
        words = ["cc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Werror", *SANITIZERS]
        command = [*words, f"-I{library}", ROOT / "tests/pubsub/read_ring.c", *sources]
        subprocess.run([*command, "-o", program], check=True, timeout=120)
        cls.readers = [PlainReader, PythonReader, lambda ring: CReader(ring, program)]

    def test_readers_that_skip_find_what_one_that_reads_all_finds(self):
        seed = int(os.environ.get("SEED", "1"))
        for number in range(seed, seed + ROUNDS):
            with self.subTest(SEED=number):
                Trial(random.Random(number), self.readers).run()

    def test_entry_of_an_incomplete_publication_hides_no_unread_one(self):
        trial = Trial(random.Random(1), self.readers)
        for _ in range(3 * OTHERS_MAX):
            trial.publish(4, 30)
        trial.publish(1, 30)
        trial.ring.write(1, 2, 60, 0, FIRST, bytes(30))
        for reader in trial.readers:
            self.assertEqual(reader.read(), [(1, 1, 0)])
        trial.ring.write(1, 2, 60, 30, LAST, bytes(30))
        for reader in trial.readers:
            self.assertEqual(reader.read(), [(1, 2, 0)])
        trial.close()

    def test_entry_that_starts_again_hides_no_unread_publication(self):
        trial = Trial(random.Random(1), self.readers)
        for _ in range(3 * OTHERS_MAX):
            trial.publish(4, 30)
        trial.publish(1, 30)
        trial.ring.start_item(1)
        for reader in trial.readers:
            self.assertEqual(reader.read(), [(1, 1, 0)])
        trial.close()

    def test_reader_of_one_item_looks_at_few_records_of_others(self):
        trial = Trial(random.Random(1), [PythonReader])
        reader, looked_at = trial.readers[0].reader, []
        take = reader._take
        reader._take = lambda *header: looked_at.append(header[1]) or take(*header)
        for _ in range(500):
            trial.publish(4, 30)
        trial.publish(1, 30)
        trial.publish(5, 30)
        self.assertEqual(trial.readers[0].read(), [(1, 1, 0)])
        self.assertLessEqual(len(looked_at), OTHERS_MAX + 2)
        # Also a publication is found that only the table leads to, as the rest is overwritten.
        for _ in range(2000):
            trial.publish(4, 30)
        trial.publish(2, 30)
        for _ in range(900):
            trial.publish(4, 30)
        self.assertEqual(trial.readers[0].read(), [(2, 1, 0)])
        self.assertLessEqual(len(looked_at), 2 * OTHERS_MAX + 4)
        trial.close()

    def test_publication_longer_than_a_bound_or_than_it_says_takes_no_memory(self):
        trial = Trial(random.Random(1), [PythonReader])
        reader = trial.readers[0].reader
        reader.publication_bytes_max = 10_000
        for number in range(8):
            flags = FIRST if number == 0 else 0
            trial.ring.write(1, 1, 1 << 40, 5000 * number, flags, bytes(5000))
        self.assertEqual((trial.readers[0].read(), reader.partial), ([], None))
        trial.ring.write(1, 2, 60, 0, FIRST, bytes(30))
        for number in range(8):
            trial.ring.write(1, 2, 60, 30 + 5000 * number, 0, bytes(5000))
        self.assertEqual((trial.readers[0].read(), reader.partial), ([], None))
        trial.ring.write(1, 3, 10_000, 0, FIRST | LAST, bytes(10_000))
        self.assertEqual(trial.readers[0].read(), [(1, 3, 2)])
        trial.close()


if __name__ == "__main__":
    unittest.main()
