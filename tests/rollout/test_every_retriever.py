"""Every recipe with every kind of retriever: its environment opens and answers a search."""

import json
import random
from dataclasses import replace
from functools import cache

import pytest
import yaml
from omegaconf import OmegaConf

from docagent_rl.checks.recipe_list import ROOT, recipe_names
from docagent_rl.config import DocAgentConfig
from docagent_rl.documents import PageRef, RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.base import AssistantTurn
from docagent_rl.envs.script import Act, Move
from docagent_rl.envs.scripted_agent import AgentState
from docagent_rl.envs.search_log import noting
from docagent_rl.envs.services import RetrieverService
from docagent_rl.lab.tiny.indexes import make_retriever
from docagent_rl.retrieval.bm25 import BM25Settings
from docagent_rl.retrieval.config import RetrieverConfig, SearchEngine
from docagent_rl.retrieval.indexes import build_bm25, build_vectors
from docagent_rl.retrieval.opening import open_local
from docagent_rl.rollout.env_resources import EnvResources
from tests.documents.conftest import write_pdf
from tests.workspaces import Workspace

PAGES = [
    "rivers of the north",
    "mountains of the south",
    "lakes and their fish",
    "the sea in winter",
]
SEARCHES = {"mm_doc_r1": {"search": {"engine": "retriever"}}}
"""Settings with which a system asks the retriever if it normally searches in its own way."""
SECTIONS = ("system", "env", "retriever", "text_retriever")


def sections(recipe: str) -> tuple[str, ...]:
    """Return what a recipe, after those it builds on, says of its environment and its
    retrievers.
    """
    written = yaml.safe_load((ROOT / f"{recipe}.yaml").read_text())
    below = written["defaults"][0]
    own = {key: value for key, value in written.get("docagent", {}).items() if key in SECTIONS}
    return (sections(below) if below in recipe_names() else ()) + (
        (json.dumps(own),) if own else ()
    )


DISTINCT = sorted({sections(name): name for name in reversed(recipe_names())}.values())
"""A recipe of each environment; others differ from it in models and training alone."""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory) -> Workspace:
    """Two documents of four pages, with an index of each kind."""
    root = tmp_path_factory.mktemp("every_retriever")
    for name in ("short", "other"):
        write_pdf(
            root / "pdf" / f"{name}.pdf", [f"{text}, {name}" for text in PAGES], size=(210, 297)
        )
    ingest(root / "pdf", root / "store", workers=1, settings=RenderSettings(dpi=36))
    store = DocumentStore(root / "store")
    make_retriever(root / "tiny")
    build_bm25(store, root / "bm25", BM25Settings())
    build_vectors(store, root / "minilm", "minilm")
    build_vectors(store, root / "late", str(root / "tiny"))
    build_vectors(store, root / "engine", "minilm", engine=SearchEngine.LANCEDB)
    return Workspace(root)


@pytest.fixture(scope="module")
def opened(workspace):
    """Open each retriever once."""
    words = {"kind": "bm25", "index": workspace.path / "bm25"}
    dense = {"kind": "dense", "model": "minilm", "index": workspace.path / "minilm"}
    late = {"kind": "late_interaction", "index": workspace.path / "late"}
    kinds = {
        "bm25": words,
        "minilm": dense,
        "hybrid": {"kind": "hybrid", "parts": {"words": words, "meaning": dense}},
        "late": late,
        "lancedb": {"kind": "dense", "index": workspace.path / "engine"},
    }
    store = DocumentStore(workspace.path / "store")
    return cache(lambda name: open_local(RetrieverConfig.model_validate(kinds[name]), store))


@pytest.fixture(scope="module")
def resources_of(workspace):
    """Open the resources that the trajectories of each recipe share, once."""

    @cache
    def make(recipe: str) -> EnvResources:
        found = workspace.config(recipe, f"docagent.retriever.index={workspace.path / 'bm25'}")
        section = OmegaConf.to_container(found.docagent, resolve=True)
        config = DocAgentConfig.parse({**section, "text_retriever": None})
        return EnvResources(
            config.model_copy(update={"env": {**config.env, **SEARCHES.get(config.system, {})}})
        )

    return make


@pytest.mark.parametrize("retriever", ["bm25", "minilm", "hybrid", "late", "lancedb"])
@pytest.mark.parametrize("recipe", DISTINCT)
async def test_the_environment_answers_a_search(recipe, retriever, workspace, resources_of, opened):
    resources = resources_of(recipe)
    asked = RetrieverService(opened(retriever))
    services = replace(resources.services, retriever=asked, text_retriever=asked)
    env = resources.system.open(resources.env_config, services, resources.prompt, validate=True)
    sample = workspace.sample(extra={"gold": "1", "num_pages": 4, "native_id": 1, "row": 0})
    opening = await env.reset(sample)
    assert opening.messages
    agent = resources.system.make_agent(resources.env_config)
    turns = resources.system.max_turns(resources.env_config)
    state = AgentState(sample, turns, random.Random(0), services.store)
    with noting() as searches:
        result = await env.step(
            AssistantTurn(agent.write(Act(Move.SEARCH, query=PAGES[0] + ", short"), state))
        )
    assert result.end is None
    assert result.record.executed
    assert env.metrics()["invalid_actions"] == 0
    found = {hit.ref for search in searches for hit in search.hits[:1]}
    # the model of random weights finds any page
    assert found == {PageRef("short", 1)} or (retriever == "late" and len(found) == 1)
