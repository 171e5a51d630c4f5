from __future__ import annotations

import re

import pytest
from PIL import Image

from docagent_rl.envs.base import ImagePart
from docagent_rl.prompts import load_prompt
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.systems.alden.actions import Modality
from docagent_rl.systems.alden.env import ALDEN_PROMPT
from docagent_rl.systems.alden.system import SYSTEM
from tests.systems.alden.play import answer, fetch, search

NAMES = ["alden_visual", "alden_hybrid"]
VALUES = {
    "question": "why?", "num_pages": 9, "turns": 6, "fetch": True, "ordinal": False, "pages_per_search": 1,
    "refusal": "The problem is not answerable", "page": 4,
}  # fmt: skip


def rendered(name, part, **changes):
    return load_prompt(name, ALDEN_PROMPT).render(part, **{**VALUES, **changes})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ordinal", [True, False])
def test_notices_hold_no_action(name, ordinal):
    texts = [rendered(name, part, ordinal=ordinal) for part in ALDEN_PROMPT.required - {"system", "user"}]
    assert all(texts)
    # without a tag there is no action in any grammar
    assert not any("<" in text for text in texts)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fetch", [True, False])
def test_the_instructions_name_every_tag_and_show_no_whole_action(name, fetch):
    text = rendered(name, "system", fetch=fetch)
    for tag in ("think", "search", "answer", "result", *(["fetch"] if fetch else [])):
        assert f"<{tag}>" in text
        assert f"</{tag}>" in text
    assert ("fetch" in text.lower()) is fetch
    # "between <search> and </search>" reads as a pair around " and "
    assert set(re.findall(r"<(?:search|fetch|answer)>(.*?)</", text)) == {" and "}
    assert VALUES["refusal"] in text


@pytest.mark.parametrize("name", NAMES)
def test_what_the_instructions_tell(name):
    assert "5 calls" in rendered(name, "system", turns=6)
    assert " 7 " in rendered(name, "system", pages_per_search=7)
    assert [("-th" in rendered(name, "system", ordinal=ordinal)) for ordinal in (True, False)] == [
        True,
        False,
    ]
    assert "why?" in rendered(name, "user")
    assert "1 to 9" in rendered(name, "user", num_pages=9)


@pytest.mark.parametrize("modality", list(Modality))
async def test_the_tokens_of_a_dialogue_are_those_of_the_chat_template(
    make, sample, processor, play, modality
):
    """Turn by turn or all at once, the same ids: the sequence is the template applied to the dialogue."""
    codec = ChatCodec(processor.tokenizer, processor)
    display = {"min_pixels": 784, "max_pixels": 40_000, "encoder_min_pixels": 784}
    page = "image, 4" if modality is Modality.HYBRID else "4"
    turns = [search("pagek3"), fetch(page), fetch("nine"), answer("blue")]
    episode = await play(make(modality=modality, display=display), sample(), turns)
    ids, images = codec.prompt_ids(episode.prompt), []
    messages = [plain(message) for message in episode.prompt.messages]
    for turn, result in zip(turns, episode.results, strict=True):
        ids += [*processor.tokenizer.encode(turn, add_special_tokens=False), codec.end_of_turn_id]
        messages.append({"role": "assistant", "content": turn})
        if result.observation:
            shown = [pad(processor, image) for image in result.observation.images]
            ids += codec.observation_ids(result.observation, shown, closed=True)
            images += shown
            messages += [plain(message) for message in result.observation.messages]
    text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=False)
    whole = list(processor(text=[text], images=[image.pixels for image in images])["input_ids"][0])
    assert len(images) == 2
    assert whole[: len(ids)] == ids
    assert processor.tokenizer.decode(whole[len(ids) :]).strip() == ""


def pad(processor, image):
    return EncodedImage.make(image, Image.new("RGB", image.size, "white"), processor.image_processor)


def plain(message):
    parts = [
        {"type": "image"} if isinstance(part, ImagePart) else {"type": "text", "text": part.text}
        for part in message.parts
    ]
    return {"role": message.role.value, "content": parts}


def test_a_prompt_of_ones_own(services, sample, tmp_path):
    lines = [f"{part}: '{part} {{{{ num_pages }}}} {{{{ question }}}}'\n" for part in ALDEN_PROMPT.required]
    (tmp_path / "mine.yaml").write_text("".join(lines))
    prompt = SYSTEM.make_env({}, services, prompt=tmp_path / "mine.yaml").opening(sample())
    said = [message.parts[0].text for message in prompt.messages]
    assert said == [f"{part} 5 {sample().question}" for part in ("system", "user")]
