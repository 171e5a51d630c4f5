import pytest

from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.env import DocVStarEnv


@pytest.fixture
def env_of(services):
    def make(*, validate=False, services=services, **overrides):
        return DocVStarEnv(DocVStarConfig(**overrides), services, validate=validate)

    return make


@pytest.fixture
def sample(make_sample):
    """Return a question on document M, whose 8 pages contain the words pagem1 to pagem8."""

    def make(**changes):
        return make_sample(**{"doc_id": "M", "evidence_pages": (3, 4), "extra": {}, **changes})

    return make
