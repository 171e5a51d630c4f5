from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from transformers import AutoConfig

from docagent_rl.commands.demo import _systems
from docagent_rl.data.parquet import read_parquet
from docagent_rl.data.record import Split
from docagent_rl.data.synth import SynthSettings
from docagent_rl.data.synth.settings import Difficulty
from docagent_rl.demo import ASKED, DemoPaths, prepare_demo
from docagent_rl.documents import DocumentStore
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.errors import UserError
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.systems import SYSTEMS, get_system
from docagent_rl.testing.scripts.sizes import SMALL

REPORTS = SynthSettings(documents=4, seed=5, difficulties=(Difficulty.EASY,))
BRIEF = {"short_steps": 1, "full_steps": 1, "pool": 2, "batch_size": 1}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    workspace = tmp_path_factory.mktemp("demo") / "workspace"

    def make(system, **more):
        return prepare_demo(workspace, system=system, warm_up=BRIEF, synthetic=REPORTS, **more)

    return make


def test_each_system_has_a_model_of_its_own(demo):
    report = demo("alden")
    paths = report.paths
    assert paths.missing("alden") == []
    assert paths.missing("mm_doc_r1") == [paths.workspace / "models" / "tiny_mm_doc_r1" / "config.json"]
    assert report.documents == 4
    assert report.questions["train"] > 0

    before = (paths.model("alden") / "model.safetensors").stat()
    demo("mm_doc_r1")
    demo("alden")
    assert paths.missing("mm_doc_r1") == []
    assert (paths.model("alden") / "model.safetensors").stat().st_mtime_ns == before.st_mtime_ns
    assert AutoConfig.from_pretrained(paths.model("alden")).model_type == "qwen2_5_vl"
    weights = {(paths.model(name) / "model.safetensors").read_bytes() for name in ("alden", "mm_doc_r1")}
    assert len(weights) == 2


def test_questions_to_train_on_are_of_the_easy_kinds(demo):
    paths = demo("alden").paths
    records = read_parquet(paths.data(Split.TRAIN))
    kinds = Counter(r.extra.get("kind", r.dataset) for r in records)
    assert {"outline"} < set(kinds) <= {*ASKED, "outline"}
    # four pages and the like: as many as there are usable bookmarks
    assert kinds["outline"] > len({r.doc_id for r in records})
    assert len({r.question_id for r in records}) == len(records)
    validation = read_parquet(paths.data(Split.VAL))
    assert {r.extra["kind"] for r in validation} - ASKED
    assert all(r.gold_pages for r in (*records, *validation))


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_can_play_every_question(name, demo):
    paths = demo("alden").paths
    system = get_system(name)
    config = system.parse_config(SMALL[name])
    retriever = RetrieverService(BM25Retriever.load(paths.index))
    services = EnvServices(DocumentStore(paths.store), retriever, RuleJudge())
    prompt = system.load_prompt(config)

    async def begin():
        for split in (Split.TRAIN, Split.VAL):
            for record in read_parquet(paths.data(split)):
                env = system.env(config, services, prompt, validate=split is Split.VAL)
                yield await env.begin(record)

    async def run():
        return [observation async for observation in begin()]

    assert all(observation.messages for observation in asyncio.run(run()))


def test_a_pdf_that_cannot_be_read_is_named(tmp_path, demo):
    pdfs = tmp_path / "pdfs"
    pdfs.mkdir()
    (pdfs / "broken.pdf").write_bytes(b"no PDF")
    with pytest.raises(UserError, match=r"broken\.pdf"):
        demo("alden", pdfs=pdfs)


def test_the_environment_is_the_runs_own(demo):
    with pytest.raises(UserError, match=r"docagent\.env\.max_turns"):
        demo("alden", env={"max_turns": 0})


def test_a_system_without_a_script_borrows_a_model(demo):
    paths = demo("mine:SYSTEM", env={"whatever": 1}).paths
    assert paths.missing("mine:SYSTEM") == []


def test_an_empty_workspace_lacks_everything(tmp_path):
    assert len(DemoPaths(tmp_path).missing("vrag_rl")) == 5


def test_systems_of_the_command():
    assert _systems(["all"]) == list(SYSTEMS)
    assert _systems(["alden", "alden", "vrag_rl"]) == ["alden", "vrag_rl"]
    with pytest.raises(UserError, match="there is no system 'alder'"):
        _systems(["alder"])
