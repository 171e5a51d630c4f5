from __future__ import annotations

import shutil
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest
from transformers import Qwen3Config

from docagent_rl.checks import budget_table
from docagent_rl.checks.budget import GIB, Line, Place, budget, total
from docagent_rl.checks.budget_page import budget_of_recipe, budget_page
from docagent_rl.checks.budget_table import check_memory, impossible, markdown, read_run, sizes_of
from docagent_rl.checks.recipe_check import Cluster, composed
from docagent_rl.checks.recipe_list import ROOT
from docagent_rl.checks.run_sizes import Searching
from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.errors import UserError
from docagent_rl.training.settings.architectures import known_model, on_meta

ALDEN, DOC, SEEKER = "alden_qwen2_5_vl_7b", "doc_v_star_qwen2_5_vl_7b", "mm_doc_r1_qwen3_4b"
VRAG = "vrag_rl_qwen2_5_vl_7b"
PAGE = ROOT.parent.parent / "docs" / "memory.md"
ACTOR = "actor_rollout_ref.actor"


def with_section(recipe: str, *overrides: str):
    config = composed(recipe, overrides)
    return config, DocAgentConfig.parse(plain(config.docagent))


def run_of(recipe: str, *overrides: str):
    return read_run(*with_section(recipe, *overrides))


def test_parts_of_a_model_are_counted():
    found = sizes_of(known_model("Qwen/Qwen2.5-VL-7B-Instruct"))
    assert found.parameters == 8_292_166_656
    assert found.head == found.embeddings == 152064 * 3584
    # q, k, v with biases, o, three of the MLP, two norms; the last norm is spread over the layers
    layer = 3584 * 3584 * 2 + 2 * 3584 * 512 + 3584 + 2 * 512 + 3 * 3584 * 18944 + 2 * 3584
    assert found.layer == layer + 3584 // 28
    assert (found.kv, found.vision, found.vision_layers) == (512, 676_550_144, 32)


def test_tied_embeddings_have_no_head_of_their_own():
    tied = on_meta(Qwen3Config(vocab_size=64, hidden_size=32, num_hidden_layers=1, tie_word_embeddings=True))
    assert (sizes_of(tied).head, sizes_of(tied).embeddings) == (0, 64 * 32)


def test_a_recipe_is_read():
    run = run_of(ALDEN)
    policy, critic = run.trained
    assert (policy.shards, policy.tokens, policy.fused, policy.checkpointing) == (16, 19000, True, True)
    assert (critic.unused_head, critic.tokens) == (True, 19000)
    assert (run.server.gpus, run.server.share, run.server.sleeps) == (2, 0.5, True)
    assert (run.rows, run.kept, run.nodes) == (128, 2, 2)
    assert run.reference is not None
    # a checkpoint of policy and critic: 8.29e9 parameters of 12 bytes, less the moments of the critic's head
    assert total(budget(run, 80 * GIB), Place.DISK) == 3 * (24 * 8_292_166_656 - 8 * 152064 * 3584)


def test_the_recipes_retrievers_are_read(tmp_path):
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "vectors").write_bytes(b"x" * 1000)
    colqwen = Searching("retriever", 2 * 2_209_000_000, 1000, processes=1, own=True)
    service = "docagent.retriever.service"

    def searching(*overrides):
        return run_of(VRAG, f"docagent.retriever.index={tmp_path}", *overrides).searching

    assert searching() == [colqwen]
    on_gpus = searching(f"{service}.num_gpus=1", f"{service}.replicas=3")
    assert on_gpus == [replace(colqwen, processes=3, gpu=True)]
    (near,) = searching("+retriever=minilm", "docagent.retriever.backend=local")
    agents = int(composed(VRAG).actor_rollout_ref.rollout.agent.num_workers)
    assert (near.model, near.processes, near.own) == (4 * 22_700_000, agents + 1, False)
    assert searching("docagent.retriever.backend=http", f"+{service}.url=http://127.0.0.1:1") == []
    images, texts = run_of("alden_hybrid_qwen2_5_vl_7b").searching
    assert (images.name, texts.name, texts.model) == ("retriever", "text_retriever", 4 * 335_000_000)


def test_towers_references_and_rows_differ(monkeypatch):
    run = run_of(DOC)
    assert (run.trained[0].frozen_vision, run.reference) == (True, None)
    assert run_of(DOC, "+ablations=doc_v_star/unfrozen_vision").trained[0].frozen_vision is False
    seeker = run_of(SEEKER)
    assert (seeker.rows, seeker.image_tokens) == (64, 0)
    fixed = run_of(DOC, f"{ACTOR}.use_dynamic_bsz=false", f"{ACTOR}.ppo_micro_batch_size_per_gpu=2")
    assert fixed.trained[0].tokens == 2 * 45056
    assert budget_table.gpu_memory() is None or budget_table.gpu_memory() > GIB
    monkeypatch.setattr(budget_table, "read_run", lambda *_: pytest.fail("read"))
    check_memory(*with_section(DOC, "+profile=cpu"))  # which has no budget


def test_a_model_that_only_the_hub_knows_has_no_budget():
    assert run_of(DOC, "actor_rollout_ref.model.path=somebody/model") is None
    assert run_of(DOC, f"{ACTOR}.strategy=megatron") is None
    with pytest.raises(UserError, match=rf"{DOC}: somebody/model"):
        budget_of_recipe(DOC, ["actor_rollout_ref.model.path=somebody/model"], Cluster(), 80)


@pytest.mark.parametrize("recipe", [ALDEN, DOC, "unidoc_rl_qwen2_5_vl_7b", SEEKER])
def test_every_recipe_fits_eight_gpus_of_80_gib(recipe):
    lines = budget(run_of(recipe, "trainer.nnodes=1", "trainer.n_gpus_per_node=8"), 80 * GIB)
    assert max(total(lines, place) for place in (Place.UPDATE, Place.ROLLOUT)) < 79 * GIB


def test_what_cannot_be_is_said_with_what_to_do():
    lines = budget(run_of(DOC, "trainer.n_gpus_per_node=1"), 80 * GIB)
    found = list(impossible(lines, {Place.UPDATE: 80 * GIB, Place.ROLLOUT: 80 * GIB, Place.DISK: 10**15}))
    assert [line.split(":")[0] for line in found] == ["GPU, update", "GPU, rollout"]
    assert "actor_rollout_ref.rollout.tensor_model_parallel_size" in found[1]


def test_an_estimate_alone_refuses_nothing():
    lines = [Line(Place.HOST, "a", 5), Line(Place.HOST, "b", 10, estimate=True)]
    assert list(impossible(lines, {Place.HOST: 6})) == []
    assert len(list(impossible(lines, {Place.HOST: 4}))) == 1


def test_a_machine_without_room_is_refused(tmp_path, monkeypatch):
    machine = SimpleNamespace(free=100 * GIB, total=10**13)
    for owner, name in ((shutil, "disk_usage"), (psutil, "virtual_memory")):
        monkeypatch.setattr(owner, name, lambda *_: machine)
    monkeypatch.setattr(budget_table, "gpu_memory", lambda: None)
    run = with_section(DOC, f"trainer.default_local_dir={tmp_path}/x/y")
    with pytest.raises(UserError, match=r"(?s)disk: .*262\.\d GiB .* 100\.0"):
        check_memory(*run)
    check_memory(*with_section(DOC, "trainer.save_freq=-1"))
    run = with_section(ALDEN, f"trainer.default_local_dir={tmp_path}", "trainer.nnodes=1")
    machine.free = 10**15
    monkeypatch.setattr(budget_table, "gpu_memory", lambda: 24 * GIB)
    with pytest.raises(UserError, match="GPU, update"):
        check_memory(*run)
    monkeypatch.setattr(budget_table, "gpu_memory", lambda: 80 * GIB)
    check_memory(*run)


def test_the_table_has_a_sum_for_each_place():
    text = markdown([Line(Place.UPDATE, "a", GIB), Line(Place.UPDATE, "b", GIB // 2, estimate=True)])
    assert "| GPU, update | a | 1.0 |  |" in text
    assert "| GPU, update | b | 0.5 | estimate |" in text
    assert "| **GPU, update** | **all** | **1.5** | |" in text


@pytest.mark.slow
def test_the_page_is_what_the_command_prints():
    assert PAGE.read_text(encoding="utf-8") == budget_page(Cluster(1, 8), 80)
