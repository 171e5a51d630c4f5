from __future__ import annotations

import time

pytest_plugins = ["pytester"]


def outcomes(pytester, until):
    pytester.makeconftest('pytest_plugins = ["tests.until"]')
    pytester.makepyfile(test_one="def test_a(): pass", test_two="def test_b(): pass")
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", f"--until={until}", "-rs")


def test_what_would_begin_too_late_is_skipped_and_says_why(pytester):
    found = outcomes(pytester, time.time() - 1)
    found.assert_outcomes(skipped=2)
    found.stdout.fnmatch_lines(["*the time for slow tests is up*"])


def test_the_rest_runs(pytester):
    outcomes(pytester, time.time() + 600).assert_outcomes(passed=2)
