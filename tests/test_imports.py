from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import docagent_rl

ROOT = Path(docagent_rl.__file__).parent
HEAVY = "docagent_rl.training.trainer.modes"
"""Brings in all that a run's processes import."""


def modules() -> list[str]:
    names = []
    for file in sorted(ROOT.rglob("*.py")):
        parts = ("docagent_rl", *file.relative_to(ROOT).with_suffix("").parts)
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


@pytest.mark.slow
def test_each_module_can_be_imported_first():
    script = Path(__file__).with_name("import_each.py")
    done = subprocess.run(
        [sys.executable, str(script), HEAVY, *modules()], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
    failures = json.loads(done.stdout.splitlines()[-1])
    assert not failures, "\n\n".join(f"{name}: {text}" for name, text in failures.items())
