"""Two nodes of which one dies: in the long form alone, it takes most of a machine's memory."""

import pytest

from tests.e2e.conftest import add_model
from tests.faults import node_death
from tests.faults.campaign import Form


@pytest.mark.faults
def test_a_node_that_dies_ends_the_run(request, tmp_path):
    if request.config.getoption("--faults") is not Form.LONG:
        pytest.skip("takes 15 GB of memory: --faults=long")
    workspace = tmp_path / "workspace"
    add_model(workspace, "vrag_rl")
    assert node_death.judge(tmp_path / "nodes", workspace) == 0
