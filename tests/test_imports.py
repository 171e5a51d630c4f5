from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import docagent_rl

HEAVY = "docagent_rl.training.trainer.modes"
"""Brings in all that a run's processes import."""
PACKAGE = Path(docagent_rl.__file__).parent


@pytest.mark.slow
def test_modules_that_import_verl_can_each_be_imported_first(warm_python):
    """verl imports our plugin, which imports verl: whoever comes first meets the other half imported."""
    files = [file for part in ("training", "patches") for file in (PACKAGE / part).rglob("*.py")]
    files = [file for file in files if "verl" in file.read_text(encoding="utf-8")]
    modules = [".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts) for file in files]
    script = Path(__file__).with_name("import_each.py")
    done = subprocess.run(
        [warm_python, str(script), HEAVY, *sorted(name.removesuffix(".__init__") for name in modules)],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    failures = json.loads(done.stdout.splitlines()[-1])
    assert not failures, "\n\n".join(f"{name}: {text}" for name, text in failures.items())
