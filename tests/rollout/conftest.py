import pytest

from tests.rollout.stage import Stage
from tests.workspaces import long_workspace, resources_of  # noqa: F401  fixtures


@pytest.fixture
def stage(world, processor):
    return Stage(world, processor)
