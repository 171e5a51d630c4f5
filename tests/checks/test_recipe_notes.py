"""What the papers say, against what runs: every difference is named where the recipe is read."""

from __future__ import annotations

import pytest
from omegaconf import DictConfig, OmegaConf

from docagent_rl.checks.recipe_check import composed
from docagent_rl.checks.recipe_list import NOTES, ablation_names, recipe_names, recipe_summary
from docagent_rl.checks.recipe_notes import Block, Note, recipe_notes
from docagent_rl.errors import UserError

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
NO_DUAL_CLIP = 1.0e9
EVERYWHERE = {
    "algorithm.use_kl_in_reward": False,
    "docagent.env.variant": "paper",
    "docagent.prompt": "the paper's wording",
    f"{ACTOR}.ppo_epochs": 1,
    f"{ACTOR}.clip_ratio_c": NO_DUAL_CLIP,
}
"""No paper prints a dual clip, a penalty in the reward or a second epoch."""

VRAG = {
    "docagent.retriever.kind": "late_interaction",
    "docagent.judge.model": "Qwen/Qwen2.5-7B-Instruct",
    "docagent.rollout.turn_tokens": 2048,
    "data.max_prompt_length": 8192,
    "data.max_response_length": 2048,
    "algorithm.adv_estimator": "grpo",
    "algorithm.norm_adv_by_std_in_grpo": True,
    "actor_rollout_ref.model.path": "an SFT checkpoint",
    f"{ACTOR}.loss_agg_mode": "seq-mean-token-mean",
    f"{ACTOR}.ppo_mini_batch_size": 64 / 5,
    f"{ACTOR}.ppo_micro_batch_size_per_gpu": 2,
    f"{ACTOR}.use_kl_loss": True,
    f"{ACTOR}.kl_loss_coef": 0.01,
    f"{ACTOR}.optim.lr": 1e-6,
    f"{ACTOR}.optim.lr_warmup_steps_ratio": 0.285,
    f"{ROLLOUT}.n": 5,
    f"{ROLLOUT}.tensor_model_parallel_size": 4,
    "trainer.total_epochs": 1,
}
UNIDOC = VRAG | {
    "docagent.judge.model": "Qwen/Qwen2.5-72B-Instruct",
    "docagent.rollout.turn_tokens": 1024,
    "data.max_prompt_length": 40000,
    "data.max_response_length": 1024,
    f"{ACTOR}.ppo_mini_batch_size": 16 / 5,
    f"{ACTOR}.ppo_micro_batch_size_per_gpu": 1,
    "trainer.n_gpus_per_node": 8,
}
ALDEN = {
    "docagent.retriever.model": "vdr-2b-v1",
    "docagent.env.max_turns": 6,
    "docagent.env.display.min_pixels": 261070,
    "docagent.env.reward.alpha": 5.0,
    "docagent.advantage.gamma_turn": 0.9,
    "docagent.advantage.lam_turn": 1.0,
    "docagent.kl.observation.coef": 0.01,
    "docagent.kl.observation.scope": "all",
    "data.train_batch_size": 128,
    "algorithm.gamma": 1.0,
    "algorithm.lam": 1.0,
    f"{ACTOR}.loss_agg_mode": "the mean over a turn's tokens, then over turns",
    f"{ACTOR}.clip_ratio_low": 0.2,
    f"{ACTOR}.clip_ratio_high": 0.2,
    f"{ACTOR}.kl_loss_coef": 0.001,
    f"{ACTOR}.optim.lr": 1e-6,
    f"{ACTOR}.optim.lr_scheduler_type": "constant",
    "actor_rollout_ref.model.path": "Qwen/Qwen2.5-VL-7B-Instruct",
    "critic.model.path": "Qwen/Qwen2.5-VL-7B-Instruct with a token classifier's head",
    "critic.optim.lr": 1e-5,
    "critic.optim.lr_scheduler_type": "constant",
    f"{ROLLOUT}.n": 1,
    f"{ROLLOUT}.max_model_len": 19000,
    "trainer.nnodes": 2,
    "trainer.n_gpus_per_node": 8,
}
DOC_V_STAR = {
    "docagent.retriever.kind": "late_interaction",
    "docagent.env.max_turns": 8,
    "docagent.env.overview.fit": "all pages at 256 px, whatever that takes",
    "docagent.env.reward.answer": 0.6,
    "docagent.env.reward.evidence": 0.3,
    "docagent.env.reward.format": 0.1,
    "docagent.env.reward.beta2": 2.0,
    "algorithm.adv_estimator": "session_grpo with a biased deviation",
    "actor_rollout_ref.model.path": "an SFT checkpoint",
    f"{ACTOR}.fsdp_config.dtype": "bfloat16",
    f"{ACTOR}.loss_agg_mode": "seq-mean-token-sum",
    f"{ACTOR}.use_kl_loss": False,
    f"{ACTOR}.optim.lr": 2e-6,
    f"{ROLLOUT}.n": 8,
    f"{ROLLOUT}.temperature": 1.0,
    f"{ROLLOUT}.val_kwargs.do_sample": False,
    f"{ROLLOUT}.val_kwargs.temperature": 0,
    "trainer.n_gpus_per_node": 8,
    "trainer.total_epochs": 3,
}
MM_DOC_R1 = {
    "docagent.retriever.kind": "bm25",
    "docagent.env.max_steps": 4,
    "docagent.env.search.top_k": 10,
    "docagent.env.read.max_pages": 3,
    "docagent.roles.reader.model": "Qwen/Qwen2.5-VL-7B-Instruct",
    "docagent.roles.extractor.model": "Qwen/Qwen2.5-72B-Instruct",
    "docagent.loss.aggregation": "session",
    "algorithm.norm_adv_by_std_in_grpo": False,
    f"{ACTOR}.loss_agg_mode": "token-sum",
    f"{ACTOR}.use_kl_loss": True,
    f"{ACTOR}.kl_loss_coef": 0.005,
    f"{ACTOR}.optim.lr": 5e-7,
    f"{ACTOR}.optim.weight_decay": 0,
    f"{ROLLOUT}.n": 4,
    f"{ROLLOUT}.temperature": 0.8,
    "trainer.n_gpus_per_node": 8,
}
SPO = {"algorithm.adv_estimator": "spo", "docagent.advantage.embedder.model": "BAAI/bge-m3"}
PAPERS = {
    "alden_qwen2_5_vl_7b": ALDEN | {"docagent.env.modality": "visual"},
    "alden_hybrid_qwen2_5_vl_7b": ALDEN
    | {
        "docagent.env.modality": "hybrid",
        "docagent.env.search.text_ranking": "own",
        "docagent.text_retriever.model": "e5-large-v2",
    },
    "doc_v_star_qwen2_5_vl_7b": DOC_V_STAR,
    "mm_doc_r1_qwen3_4b": MM_DOC_R1 | SPO | {"actor_rollout_ref.model.path": "Qwen/Qwen3-4B"},
    "mm_doc_r1_qwen3_4b_grpo": MM_DOC_R1 | {"algorithm.adv_estimator": "grpo"},
    "mm_doc_r1_qwen3_8b": MM_DOC_R1 | SPO | {"actor_rollout_ref.model.path": "Qwen/Qwen3-8B"},
    "mm_doc_r1_qwen3_8b_grpo": MM_DOC_R1 | {"algorithm.adv_estimator": "grpo"},
    "unidoc_rl_qwen2_5_vl_3b": UNIDOC,
    "unidoc_rl_qwen2_5_vl_7b": UNIDOC,
    "vrag_rl_qwen2_5_vl_3b": VRAG,
    "vrag_rl_qwen2_5_vl_7b": VRAG,
}
"""By recipe and key what the paper says, in verl's terms; sentences stand for what a recipe cannot hold."""


def keys_of(notes: list[Note]) -> set[str]:
    return {key for note in notes for key in note.keys}


@pytest.fixture(scope="module", params=recipe_names())
def recipe(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def config(recipe) -> DictConfig:
    return composed(recipe)


def test_what_departs_from_the_paper_is_named_in_the_recipe(recipe, config):
    paper = EVERYWHERE | PAPERS[recipe]
    differing = {key for key, value in paper.items() if OmegaConf.select(config, key) != value}
    named = keys_of(recipe_notes(recipe, Block.DEPARTURES))
    assert differing - named == set(), "not named"
    assert named & paper.keys() - differing == set(), "named, and yet the paper's"
    assert named <= paper.keys(), "say above what the paper has"


def test_notes_are_there_and_name_keys_and_ablations_that_exist(recipe, config):
    texts = []
    for block in Block:
        notes = recipe_notes(recipe, block)
        assert notes or block not in (Block.DEPARTURES, Block.CHOICES)
        texts += [note.text for note in notes]
        for key in keys_of(notes):
            parent, _, leaf = key.rpartition(".")
            assert leaf in OmegaConf.select(config, parent), key
    assert all(texts)
    words = [word.strip(",;)") for word in " ".join(texts).split()]
    named = {word for word in words if word.startswith(("mm_doc_r1/", "doc_v_star/"))}
    assert named <= set(ablation_names())
    assert not any(title in recipe_summary(recipe) for title in NOTES)


HEAD = "# run it\n#\n# A recipe.\n# Departs from the paper:\n"


@pytest.fixture
def noted(tmp_path):
    """The departures of `mine` among files with these notes."""

    def read(**notes: str) -> list[Note]:
        for name, text in notes.items():
            (tmp_path / f"{name}.yaml").write_text(HEAD + text)
        return recipe_notes("mine", Block.DEPARTURES, tmp_path)

    return read


def test_notes_are_read_with_continued_lines_in_blocks_and_taken_over(noted, tmp_path):
    text = "#   actor.lr, prompt: one\n#     and more\n# A line.\n#   not: a note\nx: 1\n#   y: z\n"
    assert noted(mine=text) == [Note(("actor_rollout_ref.actor.lr", "prompt"), "one and more")]
    assert recipe_notes("mine", Block.CHOICES, tmp_path) == []
    found = noted(base="#   a: one\n", mine="#   as in base\n#   b: two\n")
    assert found == [Note(("a",), "one"), Note(("b",), "two")]


@pytest.mark.parametrize(
    ("text", "message"),
    [("as in mine", "mine -> mine"), ("as in nobody", "'nobody'"), ("nothing", r"mine\.yaml: 'nothing'")],
)
def test_bad_notes(noted, text, message):
    with pytest.raises(UserError, match=message):
        noted(mine=f"#   {text}\n")
