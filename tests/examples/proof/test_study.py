from __future__ import annotations

import pytest

from docagent_rl.errors import UserError
from proof.study import run_unit
from proof.unit import ProofPaths, Unit


def test_a_run_does_not_go_on_with_other_settings(tmp_path):
    unit = Unit("alden", "reward", 0)
    folder = ProofPaths(tmp_path, "alden").run(unit)
    folder.mkdir(parents=True)
    (folder / "settings.txt").write_text("another\n")
    with pytest.raises(UserError, match="holds a run with other settings"):
        run_unit(unit, tmp_path, tmp_path)
