import pytest

from docagent_rl.systems.unidoc_rl.config import UniDocConfig
from docagent_rl.systems.unidoc_rl.env import UniDocEnv


@pytest.fixture
def make(services):
    def make(variant="paper", *, validate=False, services=services, **overrides):
        return UniDocEnv(
            UniDocConfig.for_variant(variant, **overrides), services, validate=validate
        )

    return make
