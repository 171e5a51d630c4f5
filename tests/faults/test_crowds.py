"""Many concurrent trajectories are played while services are slow and fail now and then."""

import gc
import logging
import threading

import psutil
import pytest

from docagent_rl.rollout.trajectory import MaskReason
from tests.crowd.play import Crowd
from tests.crowd.pulse import Pulse
from tests.crowd.service import AT_ONCE, ROLES, Service, overrides
from tests.crowd.world import make_world
from tests.faults.conftest import chance

pytestmark = pytest.mark.slow
CASES = 6
_FEW, _MANY = 6, 256
_LATE_S = 0.5
"""CPU seconds for which the event loop's thread may work at a time, among many trajectories."""
_RELEASED = "docagent.env.variant=released"
_SHARED = ("++docagent.env.search.text_ranking=shared", "docagent.text_retriever=null")
VARIANTS = (
    ("vrag_rl_qwen2_5_vl_7b",),
    ("unidoc_rl_qwen2_5_vl_7b",),
    ("mm_doc_r1_qwen3_8b",),
    ("alden_qwen2_5_vl_7b",),
    ("doc_v_star_qwen2_5_vl_7b",),
    ("mm_doc_r1_qwen3_8b", "+ablations=mm_doc_r1/policy_answer"),
    ("alden_hybrid_qwen2_5_vl_7b", *_SHARED),
    ("vrag_rl_qwen2_5_vl_7b", _RELEASED),
    ("unidoc_rl_qwen2_5_vl_7b", _RELEASED),
    ("alden_qwen2_5_vl_7b", _RELEASED),
)
"""Recipes and changes of them."""


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """Return a world of its own."""
    found = make_world(tmp_path_factory.mktemp("crowds"))
    gc.freeze()  # a full collection walks the objects of all libraries, for half a second
    return found


def held() -> tuple[int, int]:
    """Return the numbers of open descriptors and of threads."""
    gc.collect()
    return psutil.Process().num_fds(), threading.active_count()


def test_a_trajectory_in_company_is_the_same_alone(crowded, number):
    """Small crowds come first, one per variant, then large ones."""
    logging.getLogger("docagent_rl").setLevel(logging.CRITICAL)  # masked trajectories are expected
    recipe, *changes = VARIANTS[number % len(VARIANTS)]
    count = _FEW if number < len(VARIANTS) else _MANY
    policy_answers = any("policy_answer" in change for change in changes)
    roles = tuple(role for role in ROLES if role != "answer" or not policy_answers)
    pulse = Pulse()
    with Service(broken=0.05, shaky=0.05) as service:
        changes = [*overrides(recipe.partition("_qwen")[0], service.url, roles), *changes]
        crowd = Crowd(crowded, recipe, changes, seed=chance("crowds", number).randrange(1 << 30))
        together = crowd.together(range(count), pulse)
        masked = [each.trajectory for each in together if each.trajectory.masked]
        assert {each.end for each in masked} <= {MaskReason.INFRASTRUCTURE.value}
        assert len(together) == count
        assert service.failed or not masked
        assert service.most_at_once() <= AT_ONCE
        assert count == _FEW or pulse.worst_cpu_s <= _LATE_S
        before, plays = held(), range(0, count, max(4, count // 8))
        for trajectory in plays:
            alone = crowd.alone(trajectory)
            assert (alone.sample, alone.rows) == (
                together[trajectory].sample,
                together[trajectory].rows,
            )
        # an event loop leaves a connection to each service that it asked, of which both ends are
        # here
        room, after = (8 + 2 * len(roles) * len(plays), 8), held()
        assert all(
            now - earlier <= more for now, earlier, more in zip(after, before, room, strict=True)
        )
