"""The small task and a trajectory of its oracle, played once."""

import pytest

from tests.checks.conftest import workspace as workspace
from tests.examples.learning.small_task import SmallTask


@pytest.fixture(scope="package")
def task(tmp_path_factory, processor):
    return SmallTask(tmp_path_factory.mktemp("task"), processor)


@pytest.fixture(scope="package")
def played(task):
    """Return a trajectory that no test may change; `recorded.copied` gives a copy of its record."""
    return task.play()
