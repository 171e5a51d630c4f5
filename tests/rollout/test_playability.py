import dataclasses

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.documents.shown import ShownRasters
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.rollout.playability import (
    Playability,
    listed,
    open_all,
    prompt_tokens,
    recipe_playability,
)
from docagent_rl.systems import SYSTEMS, get_system

CHANGES = {
    "as it is": {},
    "no evidence": {"evidence_pages": (), "evidence_boxes": {}},
    "unanswerable": {
        "evidence_pages": (),
        "evidence_boxes": {},
        "answers": (),
        "answerable": False,
    },
    "no answer": {"answers": (), "answerable": None},
    "no document": {"doc_id": "none"},
    "beyond the end": {"evidence_pages": (999,), "evidence_boxes": {}},
    "no flags": {"extra": {"crop_required": []}},
    "no window": {"extra": {"window": [7, 3]}},
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("validate", [False, True])
async def test_what_is_said_is_what_the_environment_does(name, validate, world):
    """`reset` of the environment, which a trajectory calls, is the truth."""
    system = get_system(name)
    config = system.parse_config(system.small)
    services = EnvServices(world.store, RetrieverService(world.retriever), RuleJudge())
    check = Playability(system, config, services)
    for changes in CHANGES.values():
        sample = dataclasses.replace(world.samples[0], **changes)
        env = system.make_env(config, services, validate=validate)
        try:
            await env.reset(sample)
            expected = None
        except (
            Exception
        ) as error:  # whatever a trajectory would raise is what the check has to foresee
            expected = str(error)
        assert check.problem(sample, validate=validate) == expected, changes


LIMIT = 1536
DOC_V_STAR = "doc_v_star_qwen2_5_vl_7b"
MM_DOC_R1 = "mm_doc_r1_qwen3_8b"
RECIPES = (
    DOC_V_STAR, MM_DOC_R1, "alden_hybrid_qwen2_5_vl_7b", "unidoc_rl_qwen2_5_vl_7b",
    "vrag_rl_qwen2_5_vl_7b",
)  # fmt: skip


KNOWN = {}


@pytest.fixture
def shared(resources_of):
    """Return the resources that the trajectories of a recipe share, created once."""

    def make(*recipe):
        if recipe not in KNOWN:
            KNOWN[recipe] = resources_of(*recipe)
        return KNOWN[recipe]

    return make


async def drawn(prompt, resources):
    """Return the tokens of a prompt whose images are rendered and preprocessed."""
    images = (await resources.encoder.encode(prompt.images))[0] if prompt.images else []
    return len(resources.codec.prompt_ids(prompt, images))


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("doc_id", ["short", "long"])
async def test_a_prompt_is_counted_as_a_trajectory_would_have_it(
    long_workspace, shared, recipe, doc_id
):
    resources, sample = shared(recipe), long_workspace.sample(doc_id)
    counted = prompt_tokens(resources.environment(validate=False).opening(sample), resources)
    real = await drawn(await resources.environment(validate=False).reset(sample), resources)
    assert real <= LIMIT
    if recipe.startswith("mm_doc_r1"):
        assert real <= counted <= LIMIT  # with the longest plan
    else:
        assert counted == real


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_system_names_a_question_that_is_too_long(long_workspace, shared, recipe):
    wordy = long_workspace.sample(question_id="wordy", question="why? " * 3000)
    found = open_all([long_workspace.sample(), wordy], shared(recipe), limit=LIMIT, validate=True)
    (unplayable,) = found.unplayable
    assert (found.questions, unplayable.question_id, unplayable.doc_id) == (2, "wordy", "short")
    assert str(LIMIT) in unplayable.reason
    assert 0 < found.longest <= LIMIT


@pytest.mark.parametrize("recipe", RECIPES)
def test_questions_are_opened_as_a_recipe_opens_them(long_workspace, shared, recipe):
    """The recipe's own prompt and both rankings belong to what is checked."""
    config = long_workspace.config(recipe)
    parsed = DocAgentConfig.parse(plain_section(config.docagent))
    resources = shared(recipe)
    check = recipe_playability(parsed, resources.services.store)
    sample = long_workspace.sample()
    assert check.problem(sample, validate=False) is None
    assert (check.system, check.config) == (resources.system, resources.env_config)
    assert check.prompt == resources.prompt
    assert check.services.second() is check.services.retriever
    with pytest.raises(UserError, match="check_sample"):
        check.services.retriever.retriever.search(["revenue"], top_k=1)


async def test_thumbnails_that_a_run_would_have_to_draw_are_counted(
    long_workspace, resources_of, tmp_path
):
    """They count once, however many questions show them, and no longer once they are drawn."""
    folder = tmp_path / "shown"
    cache = ShownRasters([folder], capacity=1 << 30)
    resources = resources_of(DOC_V_STAR)
    resources.services.store.shown = cache
    samples = [long_workspace.sample(question_id=name) for name in ("first", "last")]
    found = open_all(samples, resources, limit=LIMIT, validate=True)
    pages = resources.services.store.document("short").num_pages
    assert {cell: len(keys) for cell, keys in found.undrawn.items()} == {56: pages}
    await drawn(resources.environment(validate=True).opening(samples[0]), resources)
    assert open_all(samples, resources, limit=LIMIT, validate=True).undrawn == {}


def test_problems_are_listed_up_to_a_number():
    names = [str(number) for number in range(12)]
    assert listed(names[:3]) == "0\n  1\n  2"
    assert listed(names[:10]).splitlines()[-1] == "  9"
    assert listed(names).splitlines()[-2:] == ["  9", "  and 2 more"]
    assert listed(names, most=11).splitlines()[-1] == "  and 1 more"
    assert listed([]) == ""


def test_a_question_that_cannot_be_played_does_not_end_the_count(long_workspace, shared):
    resources = shared("vrag_rl_qwen2_5_vl_7b")
    good = [long_workspace.sample(question_id=name) for name in ("first", "last")]
    unknown = long_workspace.sample(question_id="unknown")
    unknown = dataclasses.replace(unknown, doc_id="none")
    wordy = long_workspace.sample(question_id="wordy", question="why? " * 3000)
    found = open_all([good[0], unknown, wordy, good[1]], resources, limit=LIMIT, validate=True)
    assert [each.question_id for each in found.unplayable] == ["unknown", "wordy"]
    assert found.questions == 4
    length = prompt_tokens(resources.environment(validate=True).opening(good[0]), resources)
    assert found.longest == length
    # a prompt may be as long as the limit
    assert open_all(good, resources, limit=length, validate=True).unplayable == []
    first, _ = open_all(good, resources, limit=length - 1, validate=True).unplayable
    assert first.reason == f"its prompt has {length} tokens, data.max_prompt_length is {length - 1}"


def test_documents_whose_prompts_were_changed_are_named(long_workspace, shared):
    samples = [long_workspace.sample(doc_id) for doc_id in ("short", "long")]
    found = open_all(samples, shared(DOC_V_STAR), limit=LIMIT, validate=True)
    ((how, documents),) = found.adapted.items()
    assert how
    assert documents == {"long"}
