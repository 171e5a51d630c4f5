"""The root logger of a process in which vLLM's server is imported."""

import logging
import os
import subprocess
import sys

import pytest

from docagent_rl.patches import root_logger_level
from docagent_rl.patches.root_logger_level import CULPRIT, VARIABLE

LEVELS = "import logging; heard = logging.StreamHandler(); logging.getLogger().addHandler(heard)"
PRINT = "print(logging.getLogger().level, heard.level)"


def levels(*lines, shown=PRINT):
    environment = {name: value for name, value in os.environ.items() if name not in {VARIABLE, "LOG_LEVEL"}}
    script = "; ".join([LEVELS, *lines, f"import {CULPRIT}", shown])
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1].split()


@pytest.mark.slow
def test_upstream_still_silences_all_loggers():
    assert levels() == ["40", "40"]


@pytest.mark.slow
def test_others_are_heard_the_package_stays_quiet_and_children_begin_anew():
    own = f"{CULPRIT}.get_logger().level"
    variable = f"__import__('os').environ.get({VARIABLE!r}, 'unset')"
    shown = f"print(logging.getLogger().level, {own}, {variable})"
    assert levels("import verl", "import vllm", shown=shown) == ["30", "40", "unset"]


@pytest.mark.parametrize("variable", [VARIABLE, "LOG_LEVEL"])
def test_a_level_of_the_users_stays(monkeypatch, variable):
    for name in (VARIABLE, "LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "INFO")
    before = dict(os.environ)
    root_logger_level.PATCH.apply(logging)
    assert dict(os.environ) == before
