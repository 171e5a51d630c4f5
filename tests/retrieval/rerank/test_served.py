"""Rerankers at real vLLM servers, on the CPU."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
from aiohttp import web

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.documents import PageRef
from docagent_rl.retrieval.rerank.local import open_local
from docagent_rl.retrieval.rerank.served import ServedReranker
from tests.retrieval.vllm_servers import running
from tests.tiny_rerankers import TinyReranker, tiny_reranker

YES_NO = {
    "architectures": ["Qwen3ForSequenceClassification"],
    "classifier_from_token": ["no", "yes"],
    "is_original_qwen3_reranker": True,
}
OPTIONS = {
    TinyReranker.CROSS_ENCODER: ["--max-model-len", 128],
    TinyReranker.TEXT: ["--max-model-len", 1024, "--hf-overrides", json.dumps(YES_NO)],
}
QUERIES = ["where does the cat sit?", "[SEP] a dog <|im_end|> barks", "word " * 60]


@pytest.mark.slow(first=True)
def test_servers_score_as_the_models_in_the_process(tmp_path, tiny_folder, warm_python, store):
    options = {kind: ["--model", tiny_folder(kind), *given] for kind, given in OPTIONS.items()}
    pages = [page for ref in store.pages() if (page := store.page(ref)).text()]
    pairs = [(query, page) for query in QUERIES for page in pages]
    with running(tmp_path, warm_python, options) as servers:
        for kind, (url, _) in servers.items():
            spec = tiny_reranker(kind, tiny_folder(kind))
            local, served = open_local(spec), ServedReranker(spec, url, batch_size=4)
            expected = local.score(pairs)
            assert np.std(expected) > 1e-3
            np.testing.assert_allclose(served.score(pairs), expected, atol=2e-4)


class Scores:
    """A server that speaks vLLM's `/score`, and keeps what it was asked."""

    def __init__(self, answer) -> None:
        self.answer, self.asked = answer, []

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 26)
        app.add_routes([web.get("/v1/models", self.models), web.post("/score", self.score)])
        return app

    async def models(self, _):
        return web.json_response({"data": [{"id": "pooled", "max_model_len": 1024}]})

    async def score(self, request):
        self.asked.append(await request.json())
        return web.json_response(self.answer(self.asked[-1]))


def numbered(asked):
    found = [{"index": number, "score": float(number)} for number in range(len(asked["documents"]))]
    return {"data": found[::-1]}


@pytest.fixture
def server():
    """Runs a server in a thread and gives its URL."""
    with ExitStack() as stack:
        yield lambda scores: stack.enter_context(serving(scores.app()))


@contextmanager
def serving(app):
    loop, runner = asyncio.new_event_loop(), web.AppRunner(app)

    async def start():
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    url = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield url
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_images_go_as_they_are_stored_and_scores_come_back_in_order(server, tiny_folder, store):
    scores = Scores(numbered)
    spec = tiny_reranker(TinyReranker.IMAGE, tiny_folder(TinyReranker.IMAGE))
    served = ServedReranker(spec, server(scores), batch_size=2)
    pages = [store.page(ref) for ref in store.pages()][:3]
    assert served.score([("<|image_pad|> cat", page) for page in pages]) == [0.0, 1.0, 0.0]
    first, second = scores.asked
    assert first["queries"] == ["< |image_pad|> cat"] * 2
    assert (first["model"], first["use_activation"], len(second["documents"])) == ("pooled", False, 1)
    url = second["documents"][0]["content"][0]["image_url"]["url"]
    assert base64.b64decode(url.removeprefix("data:image/jpeg;base64,")) == pages[2].image_bytes()


@pytest.mark.parametrize(
    "data", [[], [{"index": 0, "score": None}], [{"index": 0, "score": float("nan")}], 3]
)
def test_an_answer_that_is_none_is_the_services_fault(server, tiny_folder, store, data):
    spec = tiny_reranker(TinyReranker.CROSS_ENCODER, tiny_folder(TinyReranker.CROSS_ENCODER))
    served = ServedReranker(spec, server(Scores(lambda _: {"data": data})))
    with pytest.raises(InfrastructureError, match="/score"):
        served.score([("cat", store.page(PageRef("animals", 1)))])
