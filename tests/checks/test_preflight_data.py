from __future__ import annotations

import dataclasses
import json

import pytest
from hydra import compose, initialize_config_module
from PIL import Image

from docagent_rl.checks.preflight import check
from docagent_rl.checks.preflight_data import page_tokens
from docagent_rl.documents import DocumentStore
from docagent_rl.documents.display import DisplayRule
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.manifest import Manifest, dump_record, read_record
from docagent_rl.errors import UserError
from docagent_rl.records.parquet import write_parquet
from docagent_rl.retrieval.bm25 import BM25Retriever

RECIPES = {
    "alden": "alden_qwen2_5_vl_7b",
    "doc_v_star": "doc_v_star_qwen2_5_vl_7b",
    "mm_doc_r1": "mm_doc_r1_qwen3_8b",
    "unidoc_rl": "unidoc_rl_qwen2_5_vl_7b",
    "vrag_rl": "vrag_rl_qwen2_5_vl_7b",
}


@pytest.fixture(scope="module")
def workspace(world, tmp_path_factory):
    from docagent_rl.tiny.qwen2_5_vl import build_tiny_qwen2_5_vl

    root = tmp_path_factory.mktemp("workspace")
    (root / "store").symlink_to(world.root / "store")
    (root / "index").symlink_to(world.root / "index")
    for split in ("train", "val"):
        write_parquet(world.records, root / "data" / f"{split}.parquet")
    for system in RECIPES:
        build_tiny_qwen2_5_vl(root / "models" / f"tiny_{system}")
    return root


@pytest.fixture
def run(workspace):
    """Check a run of a system."""

    def run(*overrides, system="vrag_rl"):
        with initialize_config_module(config_module="verl.trainer.config", version_base=None):
            options = ["+profile=cpu", f"docagent.workspace={workspace}", "docagent.auto_demo=false"]
            return check(compose(RECIPES[system], overrides=[*options, *overrides]))

    return run


@pytest.fixture
def files(world, tmp_path):
    """The world's questions with the first of them changed, as a file."""

    def files(key="train", **changes):
        extra = {**world.records[0].extra, **changes.pop("extra", {})}
        first = dataclasses.replace(world.records[0], **changes, extra=extra)
        path = write_parquet([first, *world.records[1:]], tmp_path / "x.parquet")
        return f"data.{key}_files={path}"

    return files


BARE = {"evidence_pages": (), "evidence_boxes": {}}
UNANSWERABLE = {**BARE, "answers": (), "answerable": False}
LONG = {"question": "Which page? " * 5000}
"""More than the prompt of any recipe holds."""


@pytest.mark.parametrize("system", RECIPES)
def test_questions_as_they_should_be(run, system):
    assert run(system=system).system == system


@pytest.mark.parametrize(
    ("system", "changes"),
    [
        ("vrag_rl", UNANSWERABLE),
        ("unidoc_rl", UNANSWERABLE),
        ("vrag_rl", BARE),
        ("unidoc_rl", BARE),
        ("alden", BARE),
        ("doc_v_star", BARE),
    ],
)
def test_rows_that_a_system_cannot_play_are_named(run, files, world, system, changes):
    with pytest.raises(UserError) as error:
        run(files(**changes), system=system)
    count = len(world.records)
    assert str(error.value).startswith(
        f"data.train_files: 1 of {count} questions cannot be played by {system}\n"
        f"  document {world.records[0].doc_id!r}, question {world.records[0].question_id!r}: "
    )


@pytest.mark.parametrize(
    ("system", "changes"),
    [("alden", UNANSWERABLE), ("doc_v_star", UNANSWERABLE), ("mm_doc_r1", BARE), ("mm_doc_r1", UNANSWERABLE)],
)
def test_rows_that_a_system_plays_are_not(run, files, system, changes):
    run(files(**changes), system=system)


@pytest.mark.parametrize(
    ("system", "changes", "message"),
    [
        ("vrag_rl", {"answers": (), "answerable": None}, "there is no reference answer"),
        ("mm_doc_r1", {"answers": (), "answerable": None}, "there is no reference answer"),
        ("unidoc_rl", {"extra": {"crop_required": {"1": "yes"}}}, "extra.crop_required"),
        ("mm_doc_r1", {"extra": {"window": [5, 2]}}, "extra.window"),
    ],
)
def test_rows_that_nobody_can_play(run, files, system, changes, message):
    with pytest.raises(UserError, match=message):
        run(files(**changes), system=system)


def test_lone_surrogates_are_named(run, workspace, tmp_path, world):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(workspace / "data" / "train.parquet")
    texts = table["record"].to_pylist()
    texts[0] = json.dumps({**json.loads(texts[0]), "question": "half \ud800"})
    place = table.column_names.index("record")
    pq.write_table(table.set_column(place, "record", pa.array(texts)), tmp_path / "x.parquet")
    with pytest.raises(UserError, match=r"row 0: .*a lone surrogate"):
        run(f"data.train_files={tmp_path / 'x.parquet'}")


def test_validation_keeps_what_cannot_be_played_and_says_so(run, files, world, capsys):
    run(files("val", **LONG))
    told = capsys.readouterr().err
    assert f"data.val_files: 1 of {len(world.records)} questions cannot be played by vrag_rl" in told
    assert repr(world.records[0].question_id) in told


def test_a_validation_of_nothing_playable_is_refused(run, world, tmp_path):
    path = write_parquet([dataclasses.replace(world.records[0], **LONG)], tmp_path / "x.parquet")
    with pytest.raises(UserError, match=r"data\.val_files: 1 of 1 questions cannot be played"):
        run(f"data.val_files={path}")


def test_a_batch_larger_than_the_questions(run, world, tmp_path):
    path = write_parquet(world.records[:3], tmp_path / "x.parquet")
    with pytest.raises(UserError, match=r"data\.train_batch_size=4 is above the 3 questions in data"):
        run(f"data.train_files={path}")
    run(f"data.train_files=[{path},{path}]")
    run(f"data.val_files={path}", "data.val_batch_size=64")
    with pytest.raises(UserError, match=r"above the 2 questions .data\.train_max_samples=2 of \d+ questions"):
        run("data.train_max_samples=2")
    small = ("data.train_batch_size=2", "actor_rollout_ref.actor.ppo_mini_batch_size=2")
    with pytest.raises(UserError, match=r"data\.gen_batch_size=8 is above the 3 questions"):
        run(f"data.train_files={path}", *small, "+data.gen_batch_size=8", "trainer.v1.trainer_mode=sync")


def test_the_longest_prompt_is_counted(run, files, world, workspace):
    from transformers import AutoTokenizer

    from docagent_rl.envs.services import EnvServices, RetrieverService
    from docagent_rl.rewards.rule_judge import RuleJudge
    from docagent_rl.rollout.chat import ChatCodec
    from docagent_rl.rollout.playability import recipe_playability

    question = "How many people " + "really " * 300 + "work there?"
    parsed = run()
    env = recipe_playability(parsed, world.store)
    services = EnvServices(world.store, RetrieverService(world.retriever), RuleJudge())
    opening = env.system.make_env(env.config, services).opening(
        dataclasses.replace(world.records[0], question=question)
    )
    codec = ChatCodec(AutoTokenizer.from_pretrained(workspace / "models" / "tiny_vrag_rl"))
    tokens = len(codec.prompt_ids(opening))
    override = files(question=question)
    room = [f"actor_rollout_ref.rollout.max_model_len={tokens + 2000}"]
    run(override, f"data.max_prompt_length={tokens}", *room)
    with pytest.raises(UserError, match=f"its prompt has {tokens} tokens, data.max_prompt_length is"):
        run(override, f"data.max_prompt_length={tokens - 1}", *room)


def test_pages_that_cannot_be_shown_are_named(run, world, workspace, tmp_path):
    store, index = tmp_path / "store", tmp_path / "index"
    ingest(world.root / "synthetic" / "pdfs", store, workers=1)
    (tmp_path / "more" / "strip").mkdir(parents=True)
    Image.new("RGB", (1900, 10)).save(tmp_path / "more" / "strip" / "1.png")
    ingest(tmp_path / "more", store, workers=1)
    # ingested before such pages were refused
    manifest = StoreLayout(store).manifest("strip")
    record = read_record(Manifest, manifest)
    page = dataclasses.replace(record.pages[0], width=2400)
    manifest.write_text(dump_record(dataclasses.replace(record, pages=(page,))))
    BM25Retriever.build(DocumentStore(store)).save(index)
    places = (f"docagent.store={store}", f"docagent.retriever.index={index}")
    corpus, document = (f"+docagent.env_cpu.search.scope={scope}" for scope in ("corpus", "document"))
    with pytest.raises(UserError, match=r"1 pages of .* be shown.*\n  page strip#1: the sides of 2400x10"):
        run(*places, corpus)
    # no question is about it
    run(*places, document)


def test_small_pages_cost_less_than_the_largest_image(run, workspace, world, tmp_path):
    def tokens(dpi):
        from docagent_rl.documents import RenderSettings

        store, index = tmp_path / f"store{dpi}", tmp_path / f"index{dpi}"
        settings = RenderSettings(dpi=dpi)
        ingest(world.root / "synthetic" / "pdfs", store, settings=settings, workers=1)
        BM25Retriever.build(DocumentStore(store)).save(index)
        return (f"docagent.store={store}", f"docagent.retriever.index={index}")

    # 8 images of up to 512 tokens would not fit into 1,024
    display = (
        "+docagent.env_cpu.display.max_pixels=401408",
        "+docagent.env_cpu.display.min_pixels=3136",
    )
    with pytest.raises(UserError, match="impossible budget"):
        run(*tokens(144), *display)
    run(*tokens(10), *display)


@pytest.mark.parametrize("snap", [True, False])
def test_no_part_of_a_page_costs_more_than_its_bound(snap):
    for rule in (
        DisplayRule(min_pixels=784, max_pixels=401408, snap=snap, encoder_min_pixels=784),
        DisplayRule(min_pixels=16 * 784, max_pixels=64 * 784, snap=snap),
    ):
        for page in ((60, 85), (200, 283), (424, 600), (1191, 1684)):
            bound = page_tokens(rule, page)
            parts = [
                (width, height)
                for width in range(20, page[0] + 1, max(1, page[0] // 40))
                for height in range(20, page[1] + 1, max(1, page[1] // 40))
                if max(width, height) <= 2 * min(width, height)
            ]
            assert max(rule.tokens(rule.shown(part)) for part in [page, *parts]) <= bound
            assert bound <= rule.max_tokens()
