"""Tests of the checks' own rules: `python3 -m unittest discover tools`."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from checks import schedule, steps, tasks, verdict  # noqa: E402


def outcome_of(text, **more):
    outcome = tasks.Outcome(tasks.Task("step", "step/file", ["tests/step/run", "file"], **more))
    for line in text.splitlines():
        outcome.read(line)
    return outcome


class Counting(unittest.TestCase):
    def test_libtest_is_counted_with_names_of_failures(self):
        outcome = outcome_of(
            "running 3 tests\ntest a::b ... ok\ntest a::c ... FAILED\n"
            "test a::d ... ignored, slow\n"
            "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out"
        )
        self.assertEqual((outcome.passed, outcome.failed, outcome.failures), (1, 1, ["a::c"]))
        self.assertEqual(outcome.skips, ["a::d: slow"])

    def test_unittest_is_counted_with_reasons_of_skips(self):
        outcome = outcome_of(
            "test_a (test_x.X.test_a) ... ok\ntest_b (test_x.X.test_b) ... skipped 'no root'\n"
            'test_d (test_x.X.test_d) ... skipped "no engine\'s socket"\n'
            "FAIL: test_c (test_x.X.test_c)\nRan 4 tests in 0.1s\n\nFAILED (failures=1, skipped=2)"
        )
        self.assertEqual((outcome.passed, outcome.failed), (1, 1))
        self.assertEqual(outcome.skips, ["no root", "no engine's socket"])
        self.assertEqual(outcome.failures, ["test_x.X.test_c"])

    def test_own_runners_count_skips_once(self):
        outcome = outcome_of("skipped: no reliability (2 cases)\n600 passed, 0 failed, 2 skipped")
        self.assertEqual((outcome.passed, outcome.skips), (600, ["no reliability (2 cases)"]))

    def test_skips_without_lines_are_counted_too(self):
        self.assertEqual(len(outcome_of("600 passed, 0 failed, 65 skipped").skips), 65)


class FakeSchedule:
    """Outcomes that are given instead of made."""

    def __init__(self, outcomes, repeated):
        self.outcomes, self.repeated, self.runner, self.ran = outcomes, list(repeated), self, []

    def run(self, task):
        self.ran.append(task)
        outcome = tasks.Outcome(task)
        outcome.status = self.repeated.pop(0)
        outcome.passed = 1 if outcome.status == 0 else 0
        return outcome


def failed(*names, **more):
    outcome = outcome_of("", **more)
    outcome.failures, outcome.failed, outcome.status = list(names), len(names), 1
    return outcome


class Repeating(unittest.TestCase):
    def test_three_passes_make_a_test_unstable(self):
        work = FakeSchedule([failed("test_x.X.test_a")], [0, 0, 0])
        self.assertEqual(verdict.repeat(work), ["test_x.X.test_a"])
        self.assertTrue(work.outcomes[0].is_ok)
        self.assertEqual(work.ran[0].command, ["tests/step/run", "test_x.X.test_a"])

    def test_one_failure_of_three_fails_the_run(self):
        work = FakeSchedule([failed("test_x.X.test_a")], [0, 1, 0])
        self.assertEqual(verdict.repeat(work), [])
        self.assertFalse(work.outcomes[0].is_ok)

    def test_three_failed_tests_are_not_repeated(self):
        work = FakeSchedule([failed("t.T.a", "t.T.b"), failed("t.T.c")], [0] * 9)
        self.assertEqual((verdict.repeat(work), work.ran), ([], []))

    def test_unit_tests_are_not_repeated(self):
        work = FakeSchedule([failed("a::b", is_repeatable=False)], [0, 0, 0])
        self.assertEqual((verdict.repeat(work), work.ran), ([], []))

    def test_failures_without_a_name_are_not_repeated(self):
        outcome = failed("t.T.a")
        outcome.failed = 2
        self.assertEqual(verdict.repeat(FakeSchedule([outcome], [0] * 3)), [])


class Unstable(unittest.TestCase):
    def faults(self, line, age):
        return verdict.faults_of_unstable_list(line, lambda commit: age)

    def test_a_young_line_is_allowed(self):
        self.assertEqual(self.faults("0a42b375 test_x.X.test_a: waits for a time", 30), [])

    def test_a_line_of_31_commits_fails_the_run(self):
        self.assertIn(
            "31 commits", self.faults("0a42b375 test_x.X.test_a: waits for a time", 31)[0]
        )

    def test_a_line_without_reason_or_known_commit_fails_the_run(self):
        self.assertEqual(len(self.faults("0a42b375 test_x.X.test_a:", 1)), 1)
        self.assertEqual(len(self.faults("0a42b375 test_x.X.test_a: reason", None)), 1)


class Running(unittest.TestCase):
    def run_command(self, *command, **more):
        return tasks.Runner({"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}).run(
            tasks.Task("s", "s", command, **more)
        )

    def test_status_output_and_processor_time_are_kept(self):
        outcome = self.run_command("sh", "-c", "echo '2 passed, 0 failed'; exit 3")
        self.assertEqual((outcome.status, outcome.passed, outcome.failed), (3, 2, 1))
        self.assertGreater(outcome.processor_seconds, 0)

    def test_a_task_that_hangs_is_ended(self):
        outcome = self.run_command("sleep", "60", limit_s=1)
        self.assertNotEqual(outcome.status, 0)
        self.assertLess(outcome.seconds, 30)

    def test_longest_tasks_begin_first(self):
        pool = schedule.Pool({"a": 5, "b": 50})
        pool.add([tasks.Task("s", name, []) for name in "abc"])
        pool.close()
        taken = [pool.take().name for _ in range(3)]
        self.assertEqual((taken, pool.take()), (["c", "b", "a"], None))


class Steps(unittest.TestCase):
    def test_every_file_of_a_folder_is_in_a_tier(self):
        long = " ".join(command for commands in steps.PARTS.values() for command in commands)
        for step in ("cli", "network", "net", "pubsub", "image", "overload", "package"):
            first = {task.command[-1] for task in steps.STEPS[step]()} | {"test_instances"}
            for path in (tasks.ROOT / "tests" / step).glob("test_*.py"):
                named = path.stem in first or f"tests/{step}/run {path.stem}" in long
                self.assertTrue(named, f"{path} is in no tier")


if __name__ == "__main__":
    unittest.main()
