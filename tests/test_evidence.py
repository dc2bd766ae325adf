"""What tests/evidence.py reads: rows of pages, and lines as the runners print them."""

import unittest

import evidence
from evidence import FAILED, PASSED, SKIPPED, Output, Row, Test

LINES = {
    "unit": [
        ("test pit::tests::pit_full ... ok", "unit:pit_full", PASSED),
        ("test links::paced_burst ... FAILED", "unit:paced_burst", FAILED),
        ("test copy_short - should panic ... ok", "unit:copy_short", PASSED),
        ("test layers::tests::own_usage ... ignored, slow", "unit:own_usage", SKIPPED),
        ("        PASS [   0.012s] ( 3/10) nw-tables::all pit::pit_full", "unit:pit_full", PASSED),
        ("        FAIL [   1.500s] nw-link service::marks", "unit:marks", FAILED),
        ("test result: ok. 3 passed; 0 failed; 0 ignored", None, None),
    ],
    "page": [
        ("ok tap_shows_packets (1201 ms)", "page:tap_shows_packets", PASSED),
        ("FAILED tap_shows_packets", "page:tap_shows_packets", FAILED),
        ("skipped: tap_shows_packets: no chromium here", "page:tap_shows_packets", SKIPPED),
    ],
    "conformance": [
        ("passed  mgmt/faces/null@unix 0.02 s ", "conformance:mgmt/faces/null", PASSED),
        (
            "skipped lp/reliability/copies@udp 0.01 s no",
            "conformance:lp/reliability/copies",
            SKIPPED,
        ),
        ("FAIL loop/other-name@unix", "conformance:loop/other-name", FAILED),
        ("640 passed, 0 failed, 3 skipped", None, None),
    ],
    "interop": [
        (
            "ok      python-ndn signed Interest over tcp (0.3 s)",
            "interop:python-ndn signed Interest over tcp",
            PASSED,
        ),
        (
            "skipped sync: members of nw (late) too (0.0 s): no Go",
            "interop:sync: members of nw (late) too",
            SKIPPED,
        ),
        ("FAIL    pyntools (1.0 s): not done", "interop:pyntools", FAILED),
    ],
    "hostile": [
        (
            "ok     random bytes over udp, 1 faces: 0.98 of the control's throughput kept",
            "hostile:random bytes over udp",
            PASSED,
        ),
        (
            "FAILED random bytes over shm: 3 of 4 pings answered",
            "hostile:random bytes over shm",
            FAILED,
        ),
        ("ok     two UDP ports: lost 0 0, 9.1 s", "hostile:two UDP ports", PASSED),
    ],
    "rest": [
        ("rest: router: the document is valid, 12 paths", None, None),
        ("rest: router: follows its document", "rest:router", PASSED),
        ("rest: balancer: NOT RUN, kernel programs need root", "rest:balancer", SKIPPED),
    ],
    "docs": [
        (
            "docs/guide/keys.md: 9 blocks passed, 0 failed, 0 skipped",
            "docs:docs/guide/keys.md",
            PASSED,
        ),
        (
            "docs/guide/keys.md: 9 blocks passed, 1 failed, 0 skipped",
            "docs:docs/guide/keys.md",
            FAILED,
        ),
        ("README.md: 0 blocks passed, 0 failed, 3 skipped", "docs:README.md", SKIPPED),
    ],
    "vm": [
        ("trial zero-copy ended with 0", "vm:zero-copy", PASSED),
        ("trial zero-copy ended with 1", "vm:zero-copy", FAILED),
    ],
}
PRINTED = """\
test_quick (test_join.Join.test_quick) ... ok
test_told (test_join.Join.test_told) ... nw join: 1.2 s
done
ok
test_described (test_join.Join.test_described)
The hub answers by multicast. ... ok
test_printing (test_join.Join.test_printing) ... skipped 'no VLAN'
test_old_form (test_join.Join) ... ok
test_wrong (test_join.Join.test_wrong) ... FAIL
test_broken (test_join.Join.test_broken) ... ERROR
setUpClass (test_edge.Edge) ... skipped 'Go is not installed'
======================================================================
FAIL: test_wrong (test_join.Join.test_wrong)
----------------------------------------------------------------------
ok
"""


def read_all(suite, text):
    results, output = {}, Output(suite)
    for line in text.splitlines():
        evidence.add(results, output.read(line))
    return results


class OutputTest(unittest.TestCase):
    def test_line_of_each_runner_gives_name_and_verdict(self):
        for suite, lines in LINES.items():
            for line, name, verdict in lines:
                with self.subTest(line=line):
                    expected = (name, verdict) if name else None
                    self.assertEqual(Output(suite).read(line), expected)

    def test_unittest_lines_between_name_and_verdict_are_skipped(self):
        results = read_all("net", PRINTED)
        self.assertEqual(
            results,
            {
                "net:test_join.Join.test_quick": PASSED,
                "net:test_join.Join.test_told": PASSED,
                "net:test_join.Join.test_described": PASSED,
                "net:test_join.Join.test_printing": SKIPPED,
                "net:test_join.Join.test_old_form": PASSED,
                "net:test_join.Join.test_wrong": FAILED,
                "net:test_join.Join.test_broken": FAILED,
                "net:test_edge.Edge": SKIPPED,
            },
        )

    def test_repeated_test_that_passes_counts_as_passed(self):
        lines = ["FAIL a/b@unix", "passed  a/b@unix 0.1 s ", "skipped a/b@udp 0.1 s no"]
        self.assertEqual(read_all("conformance", "\n".join(lines)), {"conformance:a/b": PASSED})

    def test_suite_follows_from_the_command(self):
        shards = "env NW_SHARDS=3 tests/conformance/run-nw --expect tests/conformance/expect/a.txt"
        self.assertEqual(evidence.suite_of(shards), "conformance")
        self.assertEqual(evidence.suite_of("python3 ../tests/net/run test_join"), "net")
        self.assertEqual(evidence.suite_of("cargo test --workspace"), "unit")


class MissingTest(unittest.TestCase):
    def row(self, *words):
        tests = tuple(
            evidence.parse(word.removesuffix(" (long)"), "(long)" in word) for word in words
        )
        return Row("page.md", 1, "feature", tests, ())

    def why(self, word, results, **options):
        return [why for _, _, why in evidence.missing([self.row(word)], results, **options)]

    def test_named_test_must_have_passed(self):
        name = "net:test_join.Join.test_x"
        self.assertEqual(self.why(name, {name: PASSED}), [])
        self.assertEqual(self.why(name, {name: FAILED}), [FAILED])
        self.assertEqual(self.why(name, {"net:test_join.Join": SKIPPED}), [SKIPPED])
        self.assertEqual(self.why(name, {}), ["did not run"])
        self.assertEqual(self.why(name, {}, suites={"cli"}), [])

    def test_long_test_is_missing_if_it_began_only(self):
        name = "vm:zero-copy"
        self.assertEqual(self.why(f"{name} (long)", {}), [])
        self.assertEqual(self.why(f"{name} (long)", {name: FAILED}), [FAILED])

    def test_rust_test_and_case_have_the_verdict_of_their_function(self):
        results = {"unit:pit_full": PASSED, evidence.CASES: PASSED}
        self.assertEqual(self.why("nw-tables::pit_full", results), [])
        self.assertEqual(self.why("case:router/nack", results), [])
        self.assertEqual(self.why("case:router/nack", {}), ["did not run"])


class PageTest(unittest.TestCase):
    def test_word_names_a_test_or_is_a_path(self):
        self.assertEqual(evidence.parse("nw-tables::full"), Test("unit", "full", "nw-tables"))
        self.assertEqual(evidence.parse("interop:sync: two"), Test("interop", "sync: two"))
        self.assertIsNone(evidence.parse("docs/performance.md"))

    def test_rows_of_both_pages_are_read(self):
        for page, least in zip(evidence.PAGES, (97, 50)):
            found = evidence.rows(page)
            self.assertGreaterEqual(len(found), least, page)
            self.assertTrue(all(row.tests for row in found) or page != evidence.PAGES[0])


if __name__ == "__main__":
    unittest.main()
