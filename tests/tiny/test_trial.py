from __future__ import annotations

import asyncio
import math

import pytest
import torch
from PIL import Image
from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration

from docagent_rl.checks.recipe_check import composed
from docagent_rl.config import DocAgentConfig
from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef
from docagent_rl.errors import UserError
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.session import Limits
from docagent_rl.rollout.trajectory import Status, Trajectory
from docagent_rl.systems import get_system
from docagent_rl.tiny.sampler import BatchSampler, Sampling
from docagent_rl.tiny.trial import Setting, chance_to_vary, play_trial, reward_values, shares


@pytest.fixture(scope="module")
def policy(checkpoint):
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.float32)
    return model.eval(), AutoProcessor.from_pretrained(checkpoint)


def sampler_of(policy, **changes):
    model, processor = policy
    stops = [processor.tokenizer.eos_token_id]
    return BatchSampler(model, processor, stop_ids=stops, **{"sampling": Sampling(), **changes})


def played(uid, value, **more):
    trajectory = Trajectory(uid=uid, session=0, step=0, split="train", record={}, system="mine")
    trajectory.metrics = {"reward/total": value, "reward/flat": 1.0, "turns": 2.0}
    for name, each in more.items():
        setattr(trajectory, name, each)
    return trajectory


def greedy(policy, ids, image, count):
    """One sequence, without a cache, padding or the library's sampling."""
    model, processor = policy
    ids = torch.tensor([ids])
    vision = processor.image_processor(images=[image], return_tensors="pt") if image else {}
    for _ in range(count):
        logits = model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            mm_token_type_ids=(ids == processor.image_token_id).long(),
            **vision,
        ).logits
        ids = torch.cat([ids, logits[:, -1:].argmax(-1)], dim=1)
    return ids[0, -count:].tolist()


@torch.no_grad()
def test_a_batch_samples_what_each_would_alone(policy):
    """At a temperature near 0, with and without an image, and of different lengths."""
    processor = policy[1]
    image = Image.new("RGB", (112, 140), "navy")
    placeholders = "<|vision_start|>" + "<|image_pad|>" * 20 + "<|vision_end|>"
    texts = ["What is shown", f"{placeholders}The report of the year", "A table"]
    rows = [processor.tokenizer.encode(text) for text in texts]
    images = [None, image, None]
    sampler = sampler_of(policy, sampling=Sampling(temperature=1e-4), batch_size=2)
    ref = ImageRef(PageRef("doc", 1), "hash", (0, 0, *image.size), image.size)
    encoded = EncodedImage.make(ref, image, processor.image_processor)
    calls = [
        sampler.generate(ids, [encoded] if shown else [], 5) for ids, shown in zip(rows, images, strict=True)
    ]
    replies = asyncio.run(sampler.together(calls))
    stop = processor.tokenizer.eos_token_id
    for ids, shown, reply in zip(rows, images, replies, strict=True):
        alone = greedy(policy, ids, shown, 5)
        alone = alone[: alone.index(stop) + 1] if stop in alone else alone
        assert list(reply.token_ids) == alone


def test_sessions_wait_for_each_other_and_leave_when_done(policy):
    sampler = sampler_of(policy)

    async def session(turns, most):
        return [len((await sampler.generate([5, 6, 7], [], most)).token_ids) for _ in range(turns)]

    lengths = asyncio.run(sampler.together([session(1, 3), session(3, 2), session(2, 1)]))
    assert [len(each) for each in lengths] == [1, 3, 2]
    assert all(1 <= size <= most for each, most in zip(lengths, (3, 2, 1), strict=True) for size in each)


def test_the_seed_decides_what_is_drawn(policy):
    def draw(seed):
        sampler = sampler_of(policy, seed=seed)
        return asyncio.run(sampler.together([sampler.generate([9, 8, 7], [], 12)]))[0].token_ids

    assert draw(0) == draw(0)
    assert draw(0) != draw(1)


def test_it_does_not_matter_who_comes_first(policy):
    def draw(waits):
        sampler = sampler_of(policy, batch_size=2)

        async def session(wait):
            await asyncio.sleep(wait)
            return (await sampler.generate([9, 8, 7], [], 12)).token_ids

        return asyncio.run(sampler.together([session(wait) for wait in waits]))

    assert draw([0, 0.1, 0.2]) == draw([0.2, 0, 0.1])


@pytest.fixture(scope="module")
def trial(policy, world):
    config = DocAgentConfig(
        system="unidoc_rl",
        workspace=world.root,
        run_dir=world.root / "run",
        store=world.root / "store",
        retriever={"index": world.root / "index"},
        env=dict(get_system("unidoc_rl").small),
    )
    limits = Limits(prompt=1536, response=1024, turn=8, min_turn=4)
    unknown = type(world.records[0]).from_dict({**world.records[0].to_dict(), "doc_id": "nowhere"})
    records = [*world.records[:2], unknown]
    return play_trial(Setting(config, limits, Sampling()), *policy, records, sessions=2, together=4)


def test_a_trial_plays_every_question_and_masks_what_cannot_be_played(trial):
    assert [(t.uid, t.session) for t in trial] == [(str(n), s) for n in range(3) for s in range(2)]
    assert [t.masked for t in trial] == [False] * 4 + [True] * 2
    assert "nowhere" in trial[-1].error
    assert all(t.turns and t.metrics["turns"] == len(t.turns) for t in trial[:4])


def test_reward_values_leave_masked_sessions_out(trial):
    values = reward_values(trial)
    assert set(values) == {"search_ndcg", "select", "roi", "format", "outcome", "total"}
    assert {len(each) for each in values.values()} == {4}
    assert reward_values(trial[4:]) == {}


def test_settings_are_those_of_the_recipe():
    recipe = composed("alden_qwen2_5_vl_7b", ["+profile=cpu", "docagent.workspace=somewhere"])
    setting = Setting.of(recipe)
    assert setting.limits == Limits(prompt=1536, response=1024, turn=64, min_turn=8)
    assert setting.sampling == Sampling(temperature=1.0, top_p=0.99)
    assert setting.config.env["max_turns"] == get_system("alden").small["max_turns"]
    assert setting.template == {}
    assert Setting.of(composed("mm_doc_r1_qwen3_4b")).template == {"enable_thinking": False}


def test_the_chance_to_vary_is_that_of_the_draws():
    """Two questions of one session, one paid: a step of both varies always, a step of one never."""
    pair = [played("a", 1.0), played("b", 0.0)]
    assert chance_to_vary(pair, prompts=2, steps=1, draws=20) == {"total": 1.0, "flat": 0.0, "all": 0.0}
    assert chance_to_vary(pair, prompts=1, steps=2, draws=20)["total"] == 0.0
    # a step of 2 of 4 questions, one of them paid, holds the paid one in half of the draws
    four = [played(uid, float(uid == "a")) for uid in "abcd"]
    found = chance_to_vary(four, prompts=2, steps=1, draws=4000)["total"]
    assert math.isclose(found, 0.5, abs_tol=0.03)


def test_masked_sessions_are_not_drawn_and_too_few_questions_are_refused():
    masked = played("b", 1.0, status=Status.MASKED.value)
    with pytest.raises(UserError, match=r"\b1\b.*\b2\b"):
        chance_to_vary([played("a", 0.0), masked], prompts=2, steps=1)


def test_shares():
    assert shares([1.0, 0.0, 0.0, 0.001]) == {0.0: 0.75, 1.0: 0.25}
