"""Estimators of users in real modules, services that are not configured, rankings that are
missing.
"""

import sys
from itertools import count

import pytest
from omegaconf import OmegaConf

from docagent_rl.advantages.registry import _ESTIMATORS
from docagent_rl.base.errors import UserError
from docagent_rl.checks.check import PlannedRun
from docagent_rl.checks.preflight import check, check_statically
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.checks.services import check_search_devices

NUMBERS = count()
HEAD = "from docagent_rl.advantages import register\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return a function that writes a module and returns its name; estimators that the module
    registers are removed afterwards.
    """
    monkeypatch.syspath_prepend(tmp_path)
    before = dict(_ESTIMATORS)

    def write(text: str) -> str:
        name = f"users_estimator_{next(NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    yield write
    _ESTIMATORS.clear()
    _ESTIMATORS.update(before)


def estimated(module: str, **options) -> None:
    """Run the static checks of the preflight for an estimator."""
    change = {"docagent": {"modules": [module], "advantage": {"options": options}}}
    recipe = composed_recipe(
        "vrag_rl_qwen2_5_vl_7b", ["+profile=cpu", "algorithm.adv_estimator=mine"]
    )
    check_statically(OmegaConf.unsafe_merge(recipe, change))


def registered(signature: str, body: str, name: str = "mine") -> str:
    return f"{HEAD}\n@register('{name}')\ndef f({signature}):\n{body}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "x = 1\nraise RuntimeError('no GPU here')\n",
            r"RuntimeError: no GPU here \(.*\.py, line 2\)",
        ),
        ("def f(:\n", r"SyntaxError: .*users_estimator_\d+\.py, line 1"),
        ("import nothing_of_this_name\n", "'nothing_of_this_name'"),
        (registered("", "    pass\n", "no_batch"), "estimator no_batch: "),
        (registered("inputs", "    pass\n", "spo"), "'spo'"),
    ],
)
def test_a_module_that_raises_is_one_message(module, text, message):
    name = module(text)
    with pytest.raises(UserError, match=rf"(?s)docagent\.modules: {name}.*{message}"):
        estimated(name)
    assert name not in sys.modules


def test_an_estimator_is_called_with_its_options_before_the_run(module):
    name = module(
        registered("inputs, decay: float = 0.9", "    return inputs.token_rewards * decay\n")
    )
    for options, message in (({"decay": 0.5}, "Tensor: .*Advantages"), ({"dekay": 0.5}, "decay")):
        with pytest.raises(UserError, match=rf"mine.*{message}"):
            estimated(name, **options)


ROLES = ("planner", "reader", "answer", "extractor")
VRAG, ALDEN, HYBRID = "vrag_rl_qwen2_5_vl_7b", "alden_qwen2_5_vl_7b", "alden_hybrid_qwen2_5_vl_7b"
DOC_V_STAR, MM_DOC = "doc_v_star_qwen2_5_vl_7b", "mm_doc_r1_qwen3_4b"
# small enough for any machine, and yet no CPU profile: what is not chosen is not silently a rule
BARE = ["+profile=cpu", "docagent.profile=null", "docagent.provision=null", "docagent.env_cpu={}"]
WHOLE = [
    "data.max_prompt_length=9000",
    "data.max_response_length=40000",
    "actor_rollout_ref.rollout.max_model_len=50000",
]
SECOND = (
    "docagent.text_retriever={kind: bm25, model: null, index: '${docagent.workspace}/text_index'}"
)
SHARED = "docagent.env.search.text_ranking=shared"
AT_NOBODY = [
    f"docagent.roles.{role}.base_url=http://127.0.0.1:9/v1" for role in ("planner", "answer")
]


def bare(recipe, *overrides):
    return composed_recipe(recipe, [*BARE, *WHOLE, "docagent.workspace=/nowhere", *overrides])


@pytest.mark.parametrize(
    ("overrides", "missing"),
    [([], ROLES), (["docagent.roles.reader.backend=embedded", *AT_NOBODY], ("extractor",))],
)
def test_roles_that_nobody_chose_are_refused(overrides, missing):
    with pytest.raises(UserError, match=", ".join(missing)) as caught:
        check(bare(MM_DOC, *overrides))
    for role in ROLES:
        for choice in ("base_url=", "backend=embedded"):
            assert (f"docagent.roles.{role}.{choice}" in str(caught.value)) is (role in missing)


def test_rules_that_were_chosen_are_taken():
    """The rules are accepted; the next check fails, because the store does not exist."""
    for config in (
        bare(MM_DOC, *(f"docagent.roles.{role}.backend=embedded" for role in ROLES)),
        composed_recipe(
            MM_DOC, ["+profile=cpu", "docagent.provision=null", "docagent.workspace=/nowhere"]
        ),
        bare(VRAG, "docagent.judge.kind=rule"),
        bare(DOC_V_STAR, "docagent.judge.kind=null"),  # a system without a judge needs none
    ):
        with pytest.raises(UserError, match="/nowhere"):
            check(config)


def test_a_judge_that_nobody_chose_is_refused():
    with pytest.raises(UserError, match=r"docagent\.judge\.kind=openai"):
        check(bare(VRAG, "docagent.judge.kind=null"))


def test_two_rankings_need_two_indexes():
    with pytest.raises(UserError, match=r"docagent\.text_retriever"):
        check_statically(
            composed_recipe(HYBRID, ["+retriever=bm25", "docagent.text_retriever=null"])
        )
    parsed = check_statically(composed_recipe(HYBRID, ["+retriever=bm25", SECOND]))
    assert parsed.text_retriever.index.name == "text_index"


@pytest.mark.parametrize(("recipe", "more"), [(ALDEN, []), (HYBRID, [SHARED]), (VRAG, [])])
def test_a_second_ranking_that_nobody_asks_for_is_refused(recipe, more):
    with pytest.raises(UserError, match=r"docagent\.text_retriever .*(alden|vrag_rl)"):
        check_statically(composed_recipe(recipe, [SECOND, *more]))


@pytest.mark.parametrize(
    ("more", "refused"),
    [([], True), (["backend=ray"], True), (["backend=ray", "service.num_gpus=1"], False)],
)
def test_an_index_on_a_gpu_needs_one_of_its_own(more, refused):
    more = [f"docagent.retriever.{each}" for each in ("device=cuda", *more)]
    overrides = ["+retriever=colqwen2", "docagent.workspace=w", *more]
    run = PlannedRun.of(composed_recipe("vrag_rl_qwen2_5_vl_7b", overrides))
    found = " ".join(check_search_devices(run))
    assert ("retriever.device=cuda" in found) is refused


ALONE = "actor_rollout_ref.rollout.n=1"


@pytest.mark.parametrize(
    ("recipe", "estimator", "outcome"),
    [
        (VRAG, "trajectory_grpo", "every advantage would be 0"),
        (VRAG, "turn_grpo", "every advantage would be 0"),
        (MM_DOC, "spo", "every advantage would be 0"),
        (VRAG, "grpo", "plain rewards as advantages"),
        (VRAG, "rloo", "plain rewards as advantages"),
    ],
)
def test_one_trajectory_of_a_question_is_no_group(recipe, estimator, outcome):
    chosen = [
        "+profile=cpu",
        f"algorithm.adv_estimator={estimator}",
        "docagent.advantage.options=null",
    ]
    check_statically(composed_recipe(recipe, chosen))
    with pytest.raises(
        UserError, match=rf"{estimator} compares .*{outcome}: set .*rollout\.n to 2 or more"
    ):
        check_statically(composed_recipe(recipe, [*chosen, ALONE]))


@pytest.mark.parametrize(
    "overrides",
    [
        [ALDEN, "+profile=cpu", ALONE],
        [VRAG, "+profile=cpu", ALONE, "+docagent.advantage.options.singleton=raw"],
        [VRAG, "+profile=cpu", ALONE, "algorithm.adv_estimator=reinforce_plus_plus"],
    ],
)
def test_one_trajectory_is_enough_where_none_are_compared(overrides):
    recipe, *chosen = overrides
    check_statically(composed_recipe(recipe, chosen))


@pytest.mark.parametrize(
    "name", ["gdpo", "optimal_token_baseline", "remax", "tir_optimal_token_baseline"]
)
def test_estimators_that_verls_trainers_cannot_serve_are_refused(name):
    chosen = ["+profile=cpu", f"algorithm.adv_estimator={name}", "docagent.advantage.options=null"]
    with pytest.raises(
        UserError, match=f"{name} does not work here: it needs .*V1 trainers do not compute"
    ):
        check_statically(composed_recipe(VRAG, chosen))


def test_a_changed_key_that_nobody_reads_is_refused_with_its_replacement():
    for key in ("reward.reward_manager.name=dapo", "data.truncation=left"):
        with pytest.raises(UserError, match=rf"{key}: it is not read, because .*: set docagent\."):
            check_statically(composed_recipe(VRAG, ["+profile=cpu", key]))


def test_servers_of_their_own_are_told_all_that_is_missing():
    chosen = ["+profile=cpu", "trainer.v1.trainer_mode=docagent_separate_async"]
    with pytest.raises(
        UserError, match=r"(?s)parameter_sync_step=4.*rollout\.nnodes=0.*backend=naive"
    ):
        check_statically(composed_recipe(VRAG, chosen))
