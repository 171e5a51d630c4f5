import asyncio
import base64
import io

import psutil
import pytest
from PIL import Image
from pydantic import ValidationError

from docagent_rl.base.errors import UserError
from docagent_rl.envs.base import ImagePart, Message, Role, TextPart
from docagent_rl.envs.images import ImageRef
from docagent_rl.envs.role_models import OpenAIRole, make_roles
from docagent_rl.envs.roles import RoleBackend, RoleConfig
from tests.base.test_untrusted import FORMS
from tests.chat_server import ChatServer, serving


@pytest.fixture
async def server():
    async with serving(ChatServer(script=["a plan"])) as running:
        yield running


@pytest.fixture
def make_role(server, report_store):
    def make(name="planner", **changes):
        settings = {
            "base_url": server.url,
            "model": "m",
            "timeout_s": 5,
            "deadline_s": 10,
            "backoff_s": 0,
        }
        return OpenAIRole(
            name, RoleConfig(backend="openai", **{**settings, **changes}), report_store
        )

    return make


def says(text):
    return [Message(Role.USER, (TextPart(text),))]


def shows(store, number, size=(84, 56)):
    page = store.document("R").page(number)
    image = ImageRef(page.ref, page.image_hash, (0, 0, *page.size), size)
    return [Message(Role.USER, (TextPart(f"Page {number}:"), ImagePart(image)))]


async def test_texts(server, make_role):
    messages = [Message(Role.SYSTEM, (TextPart("Be brief."),)), *says("Plan \ud83d this.")]
    assert await make_role(max_tokens=99, extra_body={"top_k": 1}).complete(messages) == "a plan"
    (request,) = server.requests
    assert request["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Plan ? this."},
    ]
    assert (request["temperature"], request["max_tokens"], request["top_k"]) == (0, 99, 1)


async def test_images_are_delivered_as_jpeg_of_the_size_asked_for(server, make_role, report_store):
    await make_role().complete(shows(report_store, 2))
    text, picture = server.requests[0]["messages"][0]["content"]
    assert text == {"type": "text", "text": "Page 2:"}
    head, data = picture["image_url"]["url"].split(",")
    assert head == "data:image/jpeg;base64"
    image = Image.open(io.BytesIO(base64.b64decode(data)))
    assert (image.size, image.format) == ((84, 56), "JPEG")


async def test_a_group_asks_once(server, make_role):
    server.slow_s = 0.05
    role = make_role()
    replies = await asyncio.gather(*(role.complete(says("Plan.")) for _ in range(6)))
    assert replies == ["a plan"] * 6
    assert await role.complete(says("Plan.")) == "a plan"
    assert len(server.requests) == 1
    await role.complete(says("Plan!"))
    assert len(server.requests) == 2


async def test_a_role_is_asked_at_its_own_temperature(server, make_role):
    await make_role(temperature=0.7).complete(says("Plan."))
    assert server.requests[0]["temperature"] == 0.7


async def test_replies_are_kept_in_a_folder_at_any_temperature(server, make_role, tmp_path):
    server.script = ["a plan", "another"]
    for _ in range(2):
        role = make_role(temperature=0.7, cache_dir=tmp_path / "replies")
        assert await role.complete(says("Plan.")) == "a plan"
    assert await make_role(temperature=0.7).complete(says("Plan.")) == "another"
    assert len(server.requests) == 2


async def test_a_role_is_checked_past_what_it_remembers(server, make_role, tmp_path):
    server.script = ["ready", "ready", 404]
    role = make_role(cache_dir=tmp_path / "replies")
    await role.check()
    await role.check()
    with pytest.raises(UserError, match=r"roles\.planner"):
        await role.check()
    assert len(server.requests) == 3


async def test_a_closed_role_opens_new_connections(server, make_role):
    port = int(server.url.split(":")[2].partition("/")[0])

    def to_server() -> int:
        open_now = psutil.Process().net_connections("tcp")
        return sum(bool(each.raddr) and each.raddr.port == port for each in open_now)

    role = make_role()
    for text in ("Plan.", "Plan!"):
        await role.complete(says(text))
        assert to_server() == 1
        await role.aclose()
        assert to_server() == 0


@pytest.mark.parametrize("token", FORMS)
async def test_no_two_texts_of_a_message_spell_a_special_token(
    server, make_role, report_store, token
):
    (picture,) = (part for part in shows(report_store, 1)[0].parts if isinstance(part, ImagePart))
    cuts = range(len(token) + 1)
    halves = [(TextPart(f"a{token[:cut]}"), TextPart(f"{token[cut:]}b")) for cut in cuts]
    told = [Message(Role.USER, parts) for parts in halves]
    beside = [Message(Role.USER, (picture, *parts)) for parts in halves]
    around = [Message(Role.USER, (one, picture, other)) for one, other in halves]
    await make_role().complete([*told, *beside, *around])
    messages = server.requests[0]["messages"]
    assert len(messages) == 3 * len(cuts)
    for message in messages:
        content = message["content"]
        texts = (
            content
            if isinstance(content, str)
            else "".join(part.get("text", "") for part in content)
        )
        assert token not in texts
        assert texts.replace("\u200b", "") == f"a{token}b"
    assert [part["type"] for part in messages[-1]["content"]] == ["text", "image_url", "text"]


REMOTE = {"backend": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "m"}


def test_embedded_roles_need_no_model(report_store):
    assert RoleConfig().backend is None
    assert RoleConfig(base_url="http://127.0.0.1:1/v1", model="m").backend is RoleBackend.OPENAI
    assert RoleConfig(model="m").backend is None
    assert set(
        make_roles({"planner": RoleConfig(), "reader": RoleConfig(**REMOTE)}, report_store)
    ) == {"reader"}


def test_a_remote_role_needs_an_address():
    with pytest.raises(ValidationError, match="base_url"):
        RoleConfig(backend="openai", model="m")


@pytest.mark.parametrize("temperature", [-0.1, float("inf"), float("nan")])
def test_temperatures_are_finite_and_not_negative(temperature):
    assert RoleConfig(**REMOTE, temperature=0).temperature == 0.0
    with pytest.raises(ValidationError, match="temperature"):
        RoleConfig(**REMOTE, temperature=temperature)


def test_a_key_that_is_not_set(report_store, monkeypatch):
    monkeypatch.delenv("READER_KEY", raising=False)
    with pytest.raises(UserError, match=r"roles\.reader\.api_key_env.*READER_KEY"):
        make_roles({"reader": RoleConfig(**REMOTE, api_key_env="READER_KEY")}, report_store)


def test_the_policy_plays_the_answer_agent_alone(report_store):
    policy = RoleConfig(backend="policy")
    assert make_roles({"answer": policy}, report_store) == {}
    with pytest.raises(UserError, match=r"roles\.planner\.backend"):
        make_roles({"answer": policy, "planner": policy}, report_store)
