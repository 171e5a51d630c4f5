"""The demands for GPUs that are read from the configurations of recipes."""

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checks.budget import GIB, MemoryKind, total
from docagent_rl.checks.cards import card_memory
from docagent_rl.checks.placement.read import read_needs
from docagent_rl.checks.recipe_check import Cluster, budget_of_recipe, composed_recipe

SEEKER, VRAG, ALDEN = "mm_doc_r1_qwen3_8b", "vrag_rl_qwen2_5_vl_7b", "alden_qwen2_5_vl_7b"
ROLES = "docagent.roles"


def read(recipe: str, *overrides: str, **options):
    return read_needs(recipe, composed_recipe(recipe, overrides), card_memory("80GB"), **options)


@pytest.mark.parametrize(("recipe", "gpus"), [(SEEKER, 8), (SEEKER, 2), (ALDEN, 8)])
def test_a_trainer_takes_what_its_budget_says(recipe, gpus):
    lines = budget_of_recipe(recipe, (), Cluster(1, gpus), card_memory("80GB"))
    most = max(total(lines, place) for place in (MemoryKind.UPDATE, MemoryKind.ROLLOUT))
    sizes = [each.size for each in read(recipe).layouts if (each.nodes, each.gpus) == (1, gpus)]
    assert sizes[0] == most
    # offloaded it takes less
    assert sorted(sizes, reverse=True) == sizes


def test_a_server_of_the_policy_spans_no_more_gpus_than_there_are():
    one = next(each for each in read(VRAG).layouts if each.gpus == 1)
    assert one.overrides == ("actor_rollout_ref.rollout.tensor_model_parallel_size=1",)
    # 80 rows of a mini-batch cannot be shared by 24 workers
    assert {each.gpus for each in read(VRAG).layouts} == {1, 2, 4, 8, 16}


def test_roles_of_one_model_share_a_server():
    planner, reader, extractor = read(SEEKER).services
    assert (planner.name, planner.model) == ("planner_answer", "Qwen/Qwen3-8B")
    assert planner.keys == (f"{ROLES}.planner.base_url", f"{ROLES}.answer.base_url")
    # 200 headings of 100 characters and 200 captions of 160, four a token; prompt and reply
    assert 52_000 // 4 + 768 + 2048 <= planner.context == 16 * 1024
    # three pages of 2,048 tokens
    assert (reader.context, reader.images) == (9 * 1024, 3)
    # an answer, the prompt, a reply of 512
    assert 2048 + 768 + 512 <= extractor.context == 4 * 1024
    # four questions of four trajectories
    assert {each.concurrency for each in (planner, reader, extractor)} == {16}
    assert [each.port for each in (planner, reader, extractor)] == [8001, 8002, 8003]
    assert extractor.sizes.parameters > 72e9


def test_an_address_decides_where_a_service_runs():
    here = f"{ROLES}.reader.base_url=http://localhost:9000/v1"
    away = f"{ROLES}.extractor.base_url=http://big:8000/v1"
    found = read(SEEKER, here, away)
    assert [(each.name, each.port) for each in found.services] == [
        ("planner_answer", 8001),
        ("reader", 9000),
    ]
    assert found.elsewhere == {"extractor": "http://big:8000/v1"}
    # a check of the configuration leaves out what it names no address for
    assert [each.name for each in read(SEEKER, here, known_only=True).services] == ["reader"]
    unknown = f"{ROLES}.reader.model=some/body"
    assert read(SEEKER, here, unknown, known_only=True).services == ()
    rule = f"{ROLES}.extractor.backend=embedded"
    assert "extractor" not in {each.name for each in read(SEEKER, rule).services}


def test_two_models_cannot_have_one_port_and_one_model_may_have_two():
    at = "base_url=http://127.0.0.1:8001/v1"
    with pytest.raises(UserError, match=r"same port, 8001, .*Qwen3-8B.*Qwen2.5-VL-7B"):
        read(SEEKER, f"{ROLES}.planner.{at}", f"{ROLES}.reader.{at}")
    found = read(SEEKER, f"{ROLES}.planner.{at}", f"{ROLES}.answer.{at.replace('8001', '8009')}")
    assert [each.port for each in found.services] == [8001, 8002, 8009, 8003]


def test_a_judge_is_read_with_the_variable_of_its_address(monkeypatch):
    monkeypatch.delenv("DOCAGENT_JUDGE_URL", raising=False)
    (judge,) = read(VRAG).services
    assert (judge.name, judge.port, judge.variable) == ("judge", 8001, "DOCAGENT_JUDGE_URL")
    assert judge.concurrency == 128  # 160 trajectories, but sixteen requests of eight workers
    assert read(VRAG).retriever == "colqwen2-v1.0"
    monkeypatch.setenv("DOCAGENT_JUDGE_URL", "http://judge:1/v1")
    assert (read(VRAG).services, read(VRAG).elsewhere) == ((), {"judge": "http://judge:1/v1"})
    assert read(ALDEN).services == ()  # judged by rules


def test_a_service_whose_sizes_nobody_knows_is_refused():
    with pytest.raises(UserError, match=r"docagent.roles.reader.model=some/body: the sizes"):
        read(SEEKER, f"{ROLES}.reader.model=some/body")
    away = f"{ROLES}.reader.base_url=http://host:1/v1"
    assert "reader" in read(SEEKER, f"{ROLES}.reader.model=some/body", away).elsewhere


def test_adapters_are_read():
    assert read(SEEKER, "+lora=gpu_80").adapts
    assert not read(SEEKER).adapts
    one = next(each for each in read(SEEKER, "+lora=gpu_80").layouts if each.gpus == 1)
    assert one.size < 75 * GIB
