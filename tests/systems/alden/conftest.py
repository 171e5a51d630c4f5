import pytest

from docagent_rl.systems.alden.config import AldenConfig
from docagent_rl.systems.alden.env import AldenEnv


@pytest.fixture
def make(services):
    def make_env(variant="paper", *, services=services, **overrides) -> AldenEnv:
        if services.text_retriever is None:
            overrides["search"] = {"text_ranking": "shared", **overrides.get("search", {})}
        return AldenEnv(AldenConfig.for_variant(variant, **overrides), services)

    return make_env


@pytest.fixture
def sample(make_sample):
    return lambda **changes: make_sample(**{"extra": {}, "evidence_pages": (3,), **changes})
