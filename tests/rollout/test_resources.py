"""The services that are created from a configuration."""

import copy
import json
from types import SimpleNamespace

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig
from docagent_rl.documents.store import PageReplacement, derive
from docagent_rl.envs.base import AssistantTurn, ImagePart, Message, Observation, Role, TextPart
from docagent_rl.envs.images import ImageRef
from docagent_rl.envs.roles import RoleConfig
from docagent_rl.envs.services import AT_A_TIME
from docagent_rl.envs.token_budget import estimated_tokens
from docagent_rl.retrieval.bm25 import BM25Retriever, BM25Settings
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.env_resources import environment_identity, open_shown_store
from docagent_rl.rollout.images import CAPACITY, ImageEncoder, ImageSettings
from docagent_rl.rollout.resources import PolicyRole, TrajectoryResources
from docagent_rl.rollout.rollout import Sampled
from docagent_rl.samples.sample import Sample
from tests.lab.agents.stage import resources as environments
from tests.systems.alden.play import search


@pytest.fixture(scope="module")
def other_index(world, tmp_path_factory):
    """Return an index that ranks differently: neither repeated words nor the length of a page
    count.
    """
    path = tmp_path_factory.mktemp("other") / "index"
    BM25Retriever.build(world.store, settings=BM25Settings(k1=0.0, b=0.0)).save(path)
    return path


@pytest.fixture
def resources(world, processor):
    def make(text_index=None, **search):
        more = {} if text_index is None else {"text_retriever": {"index": text_index}}
        return opened(
            world,
            processor,
            env={"modality": "hybrid", **({"search": search} if search else {})},
            **more,
        )

    return make


def opened(world, processor, *, running=True, **section):
    """Open the resources that trajectories share, by default for the small documents."""
    root = world.root
    paths = {"workspace": root, "run_dir": root / "run", "store": root / "store"}
    section = {"system": "alden", "retriever": {"index": root / "index"}, **paths, **section}
    return TrajectoryResources(
        DocAgentConfig.parse(section), processor.tokenizer, processor, running=running
    )


def query_with_two_answers(world, other):
    """Return a query whose best page differs between the rankings, and both pages."""
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
    pages = result.record.effect.to_dict().get("pages", ())
    return [(page["page"].rpartition("#")[2], page["form"]) for page in pages]


async def test_texts_are_ranked_by_their_own_retriever(resources, world, other_index):
    sample, query, first, second = query_with_two_answers(world, BM25Retriever.load(other_index))
    shared = resources(other_index)
    names = [each.name for each in (shared.services.retriever, shared.services.second())]
    assert names == ["retriever", "text_retriever"]
    pages = await searched(shared, sample, query)
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
    white = derive(
        world.store,
        tmp_path / "white",
        [doc_id],
        lambda _: PageReplacement(None, None),
        lambda *_: (),
    )
    shared = environments(world, "vrag_rl", shown_store=white.path)
    assert shared.services.store.document(doc_id).page(1).text() == ""
    hits = shared.services.retriever.retriever.search(["revenue"], top_k=3)
    assert hits  # what is searched is as it was
    with pytest.raises(UserError, match=tmp_path.name):
        environments(world, "vrag_rl", shown_store=tmp_path)


class Asked:
    """A rollout server that replies with a text and records its inputs."""

    def __init__(self, codec, reply):
        self.codec, self.reply, self.asked = codec, reply, []

    async def __call__(self, ids, parameters):
        self.asked.append((ids, parameters))
        return Sampled([*self.codec.text_ids(self.reply), self.codec.end_of_turn_id])


@pytest.fixture
def role(processor):
    """Return a role that the policy plays, and its server."""

    def make(reply="241", context=None, **settings):
        codec = ChatCodec(processor.tokenizer, processor)
        server = Asked(codec, reply)
        config = RoleConfig(backend="policy", max_tokens=7, **settings)
        return PolicyRole("answer", config, codec, server, context), server

    return make


MESSAGES = (
    Message(Role.SYSTEM, (TextPart("Be brief."),)),
    Message(Role.USER, (TextPart("How many?"),)),
)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (" 241 \n", "241"),
        ("<think>more or less</think> 241", "241"),
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<think>never ends", ""),
        ("a</think>b<think>c", ""),
        ("", ""),
    ],
)
async def test_thoughts_of_the_policy_s_roles_are_left_out(role, reply, said):
    model, _ = role(reply)
    assert await model.complete(MESSAGES) == said


async def test_a_role_is_asked_with_its_own_settings(role):
    model, server = role(temperature=0.5)
    await model.complete(MESSAGES)
    ((ids, parameters),) = server.asked
    assert ids == model.codec.prompt_ids(Observation(MESSAGES))
    assert parameters == {"temperature": 0.5, "top_p": 1.0, "top_k": -1, "max_tokens": 7}
    assert await model.check() is None


@pytest.mark.parametrize("spare", [0, -1])
async def test_a_conversation_fits_the_server_to_the_token(role, spare):
    length = len(role()[0].codec.prompt_ids(Observation(MESSAGES)))
    model, server = role(context=length + 7 + spare)
    if spare == 0:
        assert await model.complete(MESSAGES) == "241"
        return
    told = rf"roles\.answer: {length} tokens and a reply of up to 7 .*max_model_len={length + 6}"
    with pytest.raises(UserError, match=told):
        await model.complete(MESSAGES)
    assert server.asked == []


async def test_a_role_of_the_policy_sees_no_images(role, world):
    page = world.store.document(world.store.doc_ids()[0]).page(1)
    image = ImagePart(ImageRef(page.ref, page.image_hash, (0, 0, *page.size), (84, 56)))
    with pytest.raises(UserError, match=r"roles\.answer: the policy only plays roles"):
        await role()[0].complete([Message(Role.USER, (TextPart("Look:"), image))])


def test_identities_leave_out_places_and_patience(world, tmp_path):
    shared = environments(world, "vrag_rl")
    found = environment_identity(shared, validate=True)
    assert json.loads(json.dumps(found)) == found
    assert (found["system"], found["validate"]) == ("vrag_rl", True)
    assert environment_identity(shared, validate=False)["validate"] is False
    assert not {"base_url", "timeout_s", "attempts", "cache_dir"} & set(found["judge"])
    patient = environments(
        world, "vrag_rl", judge={"timeout_s": 5, "attempts": 9, "cache_dir": tmp_path}
    )
    assert environment_identity(patient, validate=True) == found
    other = environments(world, "vrag_rl", env={"allow_empty_gold": True})
    assert environment_identity(other, validate=True) != found


def test_shown_documents_have_the_lengths_of_those_that_are_searched(world, tmp_path):
    first, second = world.store.doc_ids()[:2]
    assert world.store.document(first).num_pages > 1
    derive(
        world.store,
        tmp_path / "one",
        [second],
        lambda _: PageReplacement(None, None),
        lambda *_: (),
    )
    config = environments(world, "vrag_rl", shown_store=tmp_path / "one").config
    assert open_shown_store(config, world.store).doc_ids() == [second]

    class Longer:
        """The searched documents, each with one more page."""

        path, shown = world.store.path, world.store.shown

        @staticmethod
        def document(doc_id):
            return SimpleNamespace(num_pages=world.store.document(doc_id).num_pages + 1)

    with pytest.raises(
        UserError, match=rf"shown_store=.*one: {second!r} has .* must contain the same"
    ):
        open_shown_store(config, Longer)


def test_pages_that_were_drawn_are_kept_where_a_run_says(world, processor):
    kept = opened(world, processor, system="vrag_rl", rollout={"shown_cache_mb": 3})
    assert kept.services.store.shown._capacity == 3 << 20
    none = opened(world, processor, system="vrag_rl", rollout={"shown_cache_mb": 0})
    assert none.services.store.shown is None


def test_images_are_kept_as_a_run_says(world, processor):
    own = opened(world, processor, system="vrag_rl", rollout={"image_cache_mb": 3})
    assert own.encoder._own_cache.maxsize == 3 << 20
    assert opened(world, processor, system="vrag_rl").encoder._own_cache.maxsize == CAPACITY


def test_a_template_that_breaks_rows_is_refused_before_a_trajectory(world, processor):
    blind = copy.copy(processor)
    blind.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    with pytest.raises(UserError, match="chat template"):
        opened(world, blind, system="vrag_rl")


def test_threads_for_images_are_those_that_a_worker_gives(processor):
    encoder = ImageEncoder(processor, lambda ref: None, ImageSettings(threads=7))
    assert encoder._executor._max_workers == 7


def test_arguments_that_the_template_does_not_read_are_told(world, processor, caplog):
    root = world.root
    paths = {"workspace": root, "run_dir": root / "run", "store": root / "store"}
    section = {"system": "vrag_rl", "retriever": {"index": root / "index"}, **paths}
    template = {"enable_thinking": False, "add_vision_id": True}
    TrajectoryResources(DocAgentConfig.parse(section), processor.tokenizer, processor, template)
    (warning,) = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert warning.endswith("does not use enable_thinking")


def test_services_are_those_of_the_configuration_and_the_tokenizer(world, processor):
    planner = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}
    shared = opened(
        world,
        processor,
        system="mm_doc_r1",
        roles={"planner": planner},
        rollout={"prompt_tokens": 777},
    )
    assert list(shared.services.roles) == ["planner"]
    assert shared.services.prompt_tokens == 777
    text = "Fahrgäste of Velmora"
    assert (
        shared.services.count_tokens(text)
        == len(shared.codec.text_ids(text))
        != estimated_tokens(text)
    )
    plain = opened(world, processor, system="mm_doc_r1")
    assert (plain.services.roles, plain.services.prompt_tokens) == ({}, None)


def test_before_a_run_what_its_actors_will_open_is_opened_here(world, processor):
    """This works without Ray, which is not running yet."""
    shared = opened(
        world, processor, running=False, retriever={"index": world.root / "index", "backend": "ray"}
    )
    assert isinstance(shared.services.retriever.retriever, BM25Retriever)


async def test_the_policy_s_roles_are_played_beside_those_of_others(world, processor):
    planner = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}
    roles = {"planner": planner, "answer": {"backend": "policy"}}
    shared = opened(world, processor, system="mm_doc_r1", roles=roles)
    with pytest.raises(UserError, match=r"roles\.answer\.backend"):
        shared.open(validate=False)
    asked = Asked(shared.codec, "241")
    played = shared.open(validate=False, ask=asked, context=9)._services.roles
    assert sorted(played) == ["answer", "planner"]
    assert played["answer"] == PolicyRole(
        "answer", shared.config.roles["answer"], shared.codec, asked, 9
    )
    # nobody else's
    assert list(shared.services.roles) == ["planner"]


def test_documents_that_are_shown_are_drawn_once_as_well(world, processor):
    root = world.root
    shared = opened(
        world,
        processor,
        system="vrag_rl",
        shown_store=root / "store",
        rollout={"shown_cache_mb": 3},
    )
    assert shared.services.store.shown._capacity == 3 << 20


def test_a_service_is_asked_as_its_configuration_says(world):
    served = {"url": "http://127.0.0.1:1", "connections": 7, "cached": 5}
    patience = {"attempts": 2, "deadline_s": 20.0}
    remote = {"backend": "http", "service": served, **patience}
    near, far = (
        environments(world, "alden", retriever=section).services.retriever
        for section in ({"index": world.root / "index", "service": served, **patience}, remote)
    )
    for each in (near, far):
        assert (each.name, each.attempts, each.deadline_s) == ("retriever", 2, 20.0)
    # words of an index are found sooner than an answer is looked up
    assert (near.concurrency, near.cached) == (AT_A_TIME, 0)
    assert (far.concurrency, far.cached) == (7, 5)
