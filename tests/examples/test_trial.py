import asyncio

import pytest
import torch
from PIL import Image
from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration

from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.config import DocAgentConfig
from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef
from docagent_rl.lab.tiny.model import build_tiny_model
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.rollout import Limits
from docagent_rl.systems import get_system
from trial import BatchSampler, Sampling, Setting, play_trial


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    checkpoint = build_tiny_model(tmp_path_factory.mktemp("models") / "tiny")
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.float32)
    return model.eval(), AutoProcessor.from_pretrained(checkpoint)


@pytest.fixture
def sampler(policy):
    model, processor = policy
    stops = [processor.tokenizer.eos_token_id]
    return lambda **changes: BatchSampler(
        model, processor, stop_ids=stops, **{"sampling": Sampling(), **changes}
    )


def greedy(policy, ids, image, count):
    """Sample one sequence greedily, without a cache, padding or the library's sampling, up to the
    end of its turn.
    """
    model, processor = policy
    ids = torch.tensor([ids])
    vision = processor.image_processor(images=[image], return_tensors="pt") if image else {}
    said = []
    while len(said) < count and processor.tokenizer.eos_token_id not in said:
        logits = model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            mm_token_type_ids=(ids == processor.image_token_id).long(),
            **vision,
        ).logits
        said.append(int(logits[0, -1].argmax()))
        ids = torch.cat([ids, torch.tensor([said[-1:]])], dim=1)
    return said


@torch.no_grad()
def test_a_batch_samples_what_each_would_alone(policy, sampler):
    """The temperature is near 0; prompts have different lengths, with and without an image."""
    processor = policy[1]
    image = Image.new("RGB", (112, 140), "navy")
    placeholders = "<|vision_start|>" + "<|image_pad|>" * 20 + "<|vision_end|>"
    texts = ["What is shown", f"{placeholders}The report of the year", "A table"]
    rows = [processor.tokenizer.encode(text) for text in texts]
    images = [None, image, None]
    batch = sampler(sampling=Sampling(temperature=1e-4), batch_size=2)
    ref = ImageRef(PageRef("doc", 1), "hash", (0, 0, *image.size), image.size)
    encoded = EncodedImage.make(ref, image, processor.image_processor)
    pairs = list(zip(rows, images, strict=True))
    calls = [batch.generate(ids, [encoded] if shown else [], 5) for ids, shown in pairs]
    replies = asyncio.run(batch.together(calls))
    alone = [greedy(policy, ids, shown, 5) for ids, shown in pairs]
    assert [list(reply.token_ids) for reply in replies] == alone


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
    limits = Limits(prompt=1536, response=256, turn=8, min_turn=4)
    unknown = type(world.samples[0]).from_dict({**world.samples[0].to_dict(), "doc_id": "nowhere"})
    samples = [*world.samples[:2], unknown]
    return play_trial(
        Setting(config, limits, Sampling()), *policy, samples, trajectories=2, together=4
    )


def test_a_trial_plays_every_question_and_masks_what_cannot_be_played(trial):
    assert [(t.uid, t.number) for t in trial] == [(str(n), s) for n in range(3) for s in range(2)]
    assert [t.masked for t in trial] == [False] * 4 + [True] * 2
    assert "nowhere" in trial[-1].error
    assert all(t.turns and t.metrics["turns"] == len(t.turns) for t in trial[:4])
    terms = {"search_ndcg", "select", "roi", "format", "outcome", "total"}
    assert all({f"reward/{term}" for term in terms} <= t.metrics.keys() for t in trial[:4])


def test_settings_are_those_of_the_recipe():
    setting = Setting.of(
        composed_recipe("alden_qwen2_5_vl_7b", ["+profile=cpu", "docagent.workspace=somewhere"])
    )
    assert setting.limits == Limits(prompt=1536, response=1024, turn=64, min_turn=8)
    assert (setting.sampling, setting.template) == (Sampling(temperature=1.0, top_p=0.99), {})
    assert setting.config.env["max_turns"] == get_system("alden").small["max_turns"]
    assert Setting.of(composed_recipe("mm_doc_r1_qwen3_4b")).template == {"enable_thinking": False}
