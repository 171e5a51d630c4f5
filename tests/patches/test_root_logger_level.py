"""The root logger of a process in which vLLM's server is imported."""

import os
import subprocess
import sys

import pytest

from docagent_rl.patches.root_logger_level import CULPRIT, VARIABLE

LEVELS = "import logging; heard = logging.StreamHandler(); logging.getLogger().addHandler(heard)"
PRINT = "print(logging.getLogger().level, heard.level)"


def levels(*lines, shown=PRINT, **variables):
    environment = {name: value for name, value in os.environ.items() if name not in {VARIABLE, "LOG_LEVEL"}}
    script = "; ".join([LEVELS, *lines, f"import {CULPRIT}", shown])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()[-2:]


def test_upstream_still_silences_all_loggers():
    assert levels() == ["40", "40"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "expected"), [({}, "30"), ({"LOG_LEVEL": "ERROR"}, "40"), ({VARIABLE: "INFO"}, "20")]
)
def test_the_level_is_the_users_or_stays(variables, expected):
    assert levels("import verl", "import vllm", **variables)[0] == expected


@pytest.mark.slow
def test_the_package_itself_stays_quiet_and_children_begin_anew():
    own = f"{CULPRIT}.get_logger().level"
    variable = f"__import__('os').environ.get({VARIABLE!r}, 'unset')"
    assert levels("import verl", "import vllm", shown=f"print({own}, {variable})") == ["40", "unset"]
