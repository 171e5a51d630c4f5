"""Models of about a million parameters, and their processors: the real classes in small sizes."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, GenerationConfig

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_dir, remove_leftovers
from docagent_rl.base.progress_bars import without_progress_bars
from docagent_rl.lab.tiny.shapes import build_processor, get_shape, tiny_config
from docagent_rl.lab.tiny.tokenizer import Conversation, build_tokenizer
from docagent_rl.lab.tiny.warm_up import WarmUp
from docagent_rl.lab.tiny.warm_up import warm_up as run_warm_up

EMBEDDING_STD = 0.1


def build_model(config: Any, seed: int) -> Any:
    """Return a float32 model whose weights depend only on `seed`.

    The global random state is not changed.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        seeing = hasattr(config, "vision_config")
        model = (AutoModelForImageTextToText if seeing else AutoModelForCausalLM).from_config(
            config
        )
    model = model.to(torch.float32).eval()
    initialise(model, seed)
    text = config.get_text_config()
    model.generation_config = GenerationConfig(
        bos_token_id=text.bos_token_id,
        pad_token_id=text.bos_token_id,
        eos_token_id=[text.eos_token_id, text.bos_token_id],
        do_sample=True,
    )
    return model


@torch.no_grad()
def initialise(model: nn.Module, seed: int) -> None:
    """Draw every weight matrix from N(0, 1/fan_in) and embeddings from N(0, 0.1²); vectors are not
    changed.

    With the library's standard deviation of 0.02, a model of this width stays on a plateau for
    minutes before it learns to use its attention.
    """
    generator = torch.Generator().manual_seed(seed)
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for parameter in model.parameters():
        if id(parameter) in embeddings:
            parameter.normal_(0.0, EMBEDDING_STD, generator=generator)
        elif parameter.ndim >= 2:
            experts = parameter.ndim == 3  # a stack with one matrix per expert
            inputs = parameter.shape[-1] if experts else parameter[0].numel()
            parameter.normal_(0.0, inputs**-0.5, generator=generator)


def build_tiny_model(
    path: Path,
    *,
    family: str = "qwen2_5_vl",
    seed: int = 0,
    warm_up: WarmUp | None = None,
    texts: Iterable[str] = (),
    longest: int | None = None,
    smallest: bool = False,
    show_progress: bool = False,
) -> Path:
    """Write a checkpoint directory and return its path; an existing model is left alone.

    The weights are a function of `seed`, of the warm-up and of its transcripts. With a warm-up, the
    tokenizer also learns the words of the transcripts, so that prompts are short; without one, the
    weights are random. It learns those of `texts`, too. `longest` is the largest number of tokens
    of a sequence, if it is not `tokenizer.MAX_LENGTH`. `smallest` chooses `smallest_shape`.

    Raises:
        UserError: `path` contains something else, the transcripts are unusable, or the family has
            no tiny model.
    """
    path = Path(path)
    if (path / "config.json").is_file():
        remove_leftovers(path)
        return path
    if path.exists() and any(path.iterdir()):
        raise UserError(
            f"{path} contains something other than a model; name a new folder for the tiny model"
        )
    shape = get_shape(family)
    conversations = warm_up.draw() if warm_up else []
    learnt = chain(_texts(conversations), texts)
    tokenizer = build_tokenizer(learnt, shape.tokens, shape.attributes)
    processor = build_processor(tokenizer, family)
    config = tiny_config(tokenizer, family, smallest=smallest)
    if longest is not None:
        tokenizer.model_max_length = longest
        config.get_text_config().max_position_embeddings = longest
    model = build_model(config, seed)
    if warm_up:
        run_warm_up(model, processor, conversations, warm_up, show_progress=show_progress)
    with atomic_dir(path) as directory, without_progress_bars():
        processor.save_pretrained(directory)
        model.save_pretrained(directory)
        for file in directory.iterdir():
            # save_pretrained makes weights readable only for their owner
            file.chmod(0o644)
    return path


def _texts(conversations: Iterable[Conversation]) -> Iterator[str]:
    for conversation in conversations:
        for message in conversation:
            content = message["content"]
            if isinstance(content, str):
                yield content
            else:
                yield from (part["text"] for part in content if "text" in part)
