"""What the papers say, against what runs: every difference is named where the recipe is read."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks.recipe_check import composed
from docagent_rl.checks.recipe_list import NOTES, ablation_names, recipe_names, recipe_summary
from docagent_rl.checks.recipe_notes import Block, Note, recipe_notes
from docagent_rl.systems import get_system

ACTOR, ROLLOUT, ENV = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "docagent.env"
NO_DUAL_CLIP = 1.0e9
EVERYWHERE = {
    "algorithm.use_kl_in_reward": False,
    f"{ENV}.variant": "paper",
    "docagent.prompt": "the paper's wording",
    f"{ACTOR}.ppo_epochs": 1,
    f"{ACTOR}.clip_ratio_c": NO_DUAL_CLIP,
}
"""No paper prints a dual clip, a penalty in the reward or a second epoch."""

NO_CHOICE = re.compile(r"variant|allow_|use_window|window|display\.(factor|encoder_)|prompts")
"""Keys of environments that say which data and model there are, or what the package is asked to be."""

VRAG = {
    f"{ENV}.extra_turn": False,
    f"{ENV}.grammar.crop": True,
    f"{ENV}.search.scope": "corpus",
    f"{ENV}.reward.gamma": 0,
    f"{ENV}.reward.gate": False,
    f"{ENV}.coords.frame": "encoder",
    f"{ENV}.crop.pad": 0,
    f"{ENV}.crop.pad_val": None,
    "docagent.retriever.kind": "late_interaction",
    "docagent.judge.model": "Qwen/Qwen2.5-7B-Instruct",
    "docagent.rollout.turn_tokens": 2048,
    "data.max_prompt_length": 8192,
    "data.max_response_length": 2048,
    "algorithm.adv_estimator": "session_grpo",
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
UNIDOC = {key: value for key, value in VRAG.items() if not key.startswith(ENV)} | {
    f"{ENV}.grammar.crop": True,
    f"{ENV}.search.scope": "corpus",
    **{f"{ENV}.reward.weights.{term}": 0.1 for term in ("search_ndcg", "select", "roi", "format")},
    f"{ENV}.reward.weights.outcome": 0.6,
    f"{ENV}.reward.gate": False,
    f"{ENV}.reward.select_rule": "any",
    f"{ENV}.reward.select_capped": False,
    f"{ENV}.reward.pseudo_positive": True,
    f"{ENV}.reward.ndcg_as_published": False,
    f"{ENV}.reward.roi_rule": "iou",
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
    f"{ENV}.max_turns": 6,
    f"{ENV}.fetch": True,
    f"{ENV}.fetch_syntax": "plain",
    f"{ENV}.display.min_pixels": 261070,
    f"{ENV}.display.max_pixels": 2508800,
    f"{ENV}.search.top_k": 1,
    f"{ENV}.search.pages_per_search": 1,
    f"{ENV}.search.text_ranking": "own",
    f"{ENV}.answer_metric": "char_f1",
    f"{ENV}.numeric_metric": "char_f1",
    f"{ENV}.polar_exact": False,
    f"{ENV}.reward.alpha": 5.0,
    f"{ENV}.reward.search": "precision",
    f"{ENV}.reward.fetch": "proximity",
    f"{ENV}.reward.eta_fetch": 0.5,
    f"{ENV}.reward.wrong_refusal": 0,
    f"{ENV}.reward.missed_refusal": 0,
    f"{ENV}.reward.calls": True,
    f"{ENV}.query_repetition.enabled": True,
    f"{ENV}.query_repetition.overlap": "jaccard",
    f"{ENV}.query_repetition.n": "n-grams of tokens, without a number",
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
OVERVIEW_FIT = ("fit", "fit_cells_px", "max_sheets", "smaller_cells_px")
DOC_V_STAR = {
    "docagent.retriever.kind": "late_interaction",
    f"{ENV}.max_turns": 8,
    f"{ENV}.overview.enabled": True,
    f"{ENV}.overview.cell_px": 256,
    f"{ENV}.overview.pages_per_sheet": 36,
    **{f"{ENV}.overview.{key}": "all pages at 256 px, whatever that takes" for key in OVERVIEW_FIT},
    f"{ENV}.display.long_side": 1024,
    f"{ENV}.display.short_side": 768,
    f"{ENV}.retrieval.enabled": True,
    f"{ENV}.retrieval.pages": None,
    f"{ENV}.retrieval.pages_divisor": 10,
    f"{ENV}.retrieval.max_pages": 4,
    f"{ENV}.fetch.enabled": True,
    f"{ENV}.fetch.max_pages": "any number",
    f"{ENV}.thought.analysis": True,
    f"{ENV}.memory.enabled": True,
    f"{ENV}.memory.summary_chars": "all of a summary",
    f"{ENV}.answer.threshold": 0.5,
    f"{ENV}.answer.identifier_rule": "paper",
    f"{ENV}.reward.answer": 0.6,
    f"{ENV}.reward.evidence": 0.3,
    f"{ENV}.reward.format": 0.1,
    f"{ENV}.reward.beta2": 2.0,
    f"{ENV}.reward.hits": "listed",
    "algorithm.adv_estimator": "session_grpo",
    "docagent.advantage.options.std": "biased",
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
    "docagent.store": "pages read by Doc2X",
    f"{ENV}.max_steps": 4,
    f"{ENV}.plan.toc": True,
    f"{ENV}.plan.figures": True,
    f"{ENV}.plan.max_items": 10,
    f"{ENV}.search.engine": "document_bm25",
    f"{ENV}.search.top_k": 10,
    f"{ENV}.read.max_pages": 3,
    f"{ENV}.answer.page_text": True,
    f"{ENV}.answer.snippets": True,
    f"{ENV}.reward.pages": 1,
    f"{ENV}.reward.correctness": 1,
    f"{ENV}.reward.page_term": "recall",
    "docagent.roles.reader.model": "Qwen/Qwen2.5-VL-7B-Instruct",
    "docagent.roles.extractor.model": "Qwen/Qwen2.5-72B-Instruct",
    "docagent.loss.aggregation": "session",
    "docagent.advantage.options.std": "none",
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
    "alden_qwen2_5_vl_7b": ALDEN | {f"{ENV}.modality": "visual"},
    "alden_hybrid_qwen2_5_vl_7b": ALDEN
    | {f"{ENV}.modality": "hybrid", "docagent.text_retriever.model": "e5-large-v2"},
    "doc_v_star_qwen2_5_vl_7b": DOC_V_STAR,
    "mm_doc_r1_qwen3_4b": MM_DOC_R1 | SPO | {"actor_rollout_ref.model.path": "Qwen/Qwen3-4B"},
    "mm_doc_r1_qwen3_4b_grpo": MM_DOC_R1 | {"algorithm.adv_estimator": "session_grpo"},
    "mm_doc_r1_qwen3_8b": MM_DOC_R1 | SPO | {"actor_rollout_ref.model.path": "Qwen/Qwen3-8B"},
    "mm_doc_r1_qwen3_8b_grpo": MM_DOC_R1 | {"algorithm.adv_estimator": "session_grpo"},
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
    """The configuration with every key of its environment, as the variant fills it."""
    made = composed(recipe)
    env = get_system(made.docagent.system).parse_config(
        OmegaConf.to_container(made.docagent.env, resolve=True)
    )
    OmegaConf.update(made, ENV, env.model_dump(mode="json"), merge=False, force_add=True)
    return made


def test_every_key_of_the_environment_is_the_papers_or_named(recipe, config):
    said = keys_of(recipe_notes(recipe, Block.DEPARTURES) + recipe_notes(recipe, Block.CHOICES))
    said |= PAPERS[recipe].keys()
    keys = set(flat(config.docagent.env))
    assert {key for key in keys if not any(f"{ENV}.{key}.".startswith(f"{each}.") for each in said)} == set()


def flat(section: DictConfig, prefix: str = "") -> Iterator[str]:
    for key in section:
        if NO_CHOICE.match(f"{prefix}{key}"):
            continue
        if isinstance(section[key], DictConfig):
            yield from flat(section[key], f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


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
