"""Minutes of the real trainer: in the long form alone."""

import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import add_model
from tests.faults.campaign import Form
from tests.faults.trainer_kills import Phase, make_run, play, problems


@pytest.mark.faults
def test_a_run_that_is_killed_again_and_again_loses_nothing(request, tmp_path):
    if request.config.getoption("--faults") is not Form.LONG:
        pytest.skip("takes a quarter of an hour: --faults=long")
    workspace = tmp_path / "workspace"
    add_model(workspace, "vrag_rl")
    run = make_run(tmp_path / "run", workspace, Path(sys.executable))
    kills = play(run, len(Phase), request.config.getoption("--faults-seed"))
    assert len({kill.phase for kill in kills}) >= 5
    assert not [kill for kill in kills if kill.left]
    assert list(problems(run)) == []
