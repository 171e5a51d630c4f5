"""What a configuration makes of its services."""

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig
from docagent_rl.documents.store import Face, derive
from docagent_rl.envs.base import AssistantTurn
from docagent_rl.retrieval.bm25 import BM25Retriever, BM25Settings
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.samples.sample import Sample
from tests.lab.agents.stage import resources as environments
from tests.systems.alden.play import search


@pytest.fixture(scope="module")
def other_index(world, tmp_path_factory):
    """An index that ranks otherwise: neither repetitions of a word count, nor the length of a page."""
    path = tmp_path_factory.mktemp("other") / "index"
    BM25Retriever.build(world.store, settings=BM25Settings(k1=0.0, b=0.0)).save(path)
    return path


@pytest.fixture
def resources(world, processor):
    def make(text_index=None, **search):
        more = {} if text_index is None else {"text_retriever": {"index": text_index}}
        return opened(
            world, processor, env={"modality": "hybrid", **({"search": search} if search else {})}, **more
        )

    return make


def opened(world, processor, **section):
    """What trajectories share, of the small world unless the section says otherwise."""
    root = world.root
    paths = {"workspace": root, "run_dir": root / "run", "store": root / "store"}
    section = {"system": "alden", "retriever": {"index": root / "index"}, **paths, **section}
    return TrajectoryResources(DocAgentConfig.parse(section), processor.tokenizer, processor)


def query_with_two_answers(world, other):
    """A question whose best page differs between the rankings, with both pages."""
    for sample in world.samples:
        for words in (sample.question, *sample.question.split()):
            first, second = (
                hits[0][0].ref.page if hits[0] else 0
                for hits in (
                    retriever.search([words], doc_id=sample.doc_id, top_k=1)
                    for retriever in (world.retriever, other)
                )
            )
            if first and second and first != second:
                return sample, words, first, second
    raise AssertionError("the rankings agree on every question")


async def searched(resources, sample: Sample, query: str):
    env = resources.environment(validate=False)
    await env.reset(sample)
    result = await env.step(AssistantTurn(search(query)))
    pages = result.info["effect"].get("pages", ())
    return [(page["page"].rpartition("#")[2], page["form"]) for page in pages]


async def test_texts_are_ranked_by_their_own_retriever(resources, world, other_index):
    sample, query, first, second = query_with_two_answers(world, BM25Retriever.load(other_index))
    pages = await searched(resources(other_index), sample, query)
    assert pages == [(str(first), "image"), (str(second), "text")]


async def test_one_ranking_is_shown_twice_only_where_that_was_chosen(resources, world):
    sample = world.samples[0]
    shared = await searched(resources(text_ranking="shared"), sample, sample.question)
    assert [form for _, form in shared] == ["image", "text"]
    assert shared[0][0] == shared[1][0]
    with pytest.raises(UserError, match=r"docagent\.text_retriever.*text_ranking=shared"):
        resources().environment(validate=False)


def test_a_second_index_that_ranks_alike_is_refused(resources, world, tmp_path):
    BM25Retriever.build(world.store).save(tmp_path / "copy")
    with pytest.raises(UserError, match=r"copy.*docagent\.retriever"):
        resources(tmp_path / "copy")


def test_a_role_of_the_policy_is_refused(world):
    shared = environments(world, "mm_doc_r1", roles={"answer": {"backend": "policy"}})
    with pytest.raises(UserError, match=r"roles\.answer\.backend.*roles\.answer\.base_url"):
        shared.environment()


def test_documents_that_are_shown_may_be_others(world, tmp_path):
    doc_id = world.store.doc_ids()[0]
    white = derive(world.store, tmp_path / "white", [doc_id], lambda _: Face(None, None), lambda *_: ())
    shared = environments(world, "vrag_rl", shown_store=white.path)
    assert shared.services.store.document(doc_id).page(1).text() == ""
    hits = shared.services.retriever.retriever.search(["revenue"], top_k=3)
    assert hits  # what is searched is as it was
    with pytest.raises(UserError, match=tmp_path.name):
        environments(world, "vrag_rl", shown_store=tmp_path)
