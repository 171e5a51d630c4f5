"""`check` names any damage to any file of a run, an evaluation, a collection, a probe or a rescored
run.
"""

import shutil
from random import Random

import pytest

from docagent_rl.checkpoints.audit import audit_run
from tests.faults.conftest import chance
from tests.faults.run_damages import Kind, files, kind_of, make, spoil

pytestmark = pytest.mark.slow
CASES = 5 * len(Kind)
EACH = 6
"""Number of damages per case."""


@pytest.fixture(scope="module")
def made(world, tmp_path_factory):
    return make(world, tmp_path_factory.mktemp("runs"))


def said(folder):
    """Return everything that an audit reports, with files named by their paths."""
    audit = audit_run(folder)
    return "\n".join(
        [*(f"{d.path} {d.problem}" for d in audit.damages), *audit.unsealed, *audit.notes]
    )


def test_whole_runs_have_nothing_said_of_them(made):
    for kind in made.kinds:
        for number in ("2", "3"):
            assert said(made.root / number / kind) == ""


def damaged(made, kind, how, dice, folder):
    """Return a copy of a run with one damage, the file, and whether there was anything to
    damage.
    """
    shutil.copytree(made.root / "2" / kind, folder)
    path = dice.choice(list(files(folder)))
    alike = [
        each
        for each in files(folder)
        if kind_of(folder, each) == kind_of(folder, path) and each != path
    ]
    return path, spoil(path, alike, made.root / "3" / kind / path.relative_to(folder), how, dice)


def test_every_damage_is_named(made, tmp_path, number):
    kind = made.kinds[number % len(made.kinds)]
    how = list(Kind)[number // len(made.kinds) % len(Kind)]
    dice: Random = chance(__name__, number)
    for attempt in range(EACH):
        folder = tmp_path / str(attempt)
        path, changed = damaged(made, kind, how, dice, folder)
        if changed:
            told = said(folder)
            assert str(folder) in told, f"{path.relative_to(folder)}: {how}"
        shutil.rmtree(folder)
