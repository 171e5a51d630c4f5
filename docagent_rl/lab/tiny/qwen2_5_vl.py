"""A tiny Qwen2.5-VL checkpoint that transformers, verl and vLLM load like one from the hub.

Example:
    >>> build_tiny_qwen2_5_vl(Path("models/tiny"))  # random weights, under two seconds
    >>> transcripts = partial(scripted_conversations, stage, system.script(config))
    >>> build_tiny_qwen2_5_vl(Path("models/tiny"), warm_up=WarmUp(transcripts))  # acts in ALDEN's grammar
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from transformers.utils import logging as transformers_logging

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_dir, remove_leftovers
from docagent_rl.lab.tiny.encoding import Conversation
from docagent_rl.lab.tiny.model import build_model, build_processor, tiny_config
from docagent_rl.lab.tiny.tokenizer import build_tokenizer
from docagent_rl.lab.tiny.warm_up import WarmUp, digest
from docagent_rl.lab.tiny.warm_up import warm_up as run_warm_up

FINGERPRINT_FILE = "docagent_tiny_model.json"
"""What a build was made of, kept beside the weights."""

LIBRARIES = ("torch", "transformers", "tokenizers")


def build_tiny_qwen2_5_vl(
    path: Path, *, seed: int = 0, warm_up: WarmUp | None = None, show_progress: bool = False
) -> Path:
    """Write a checkpoint directory and return its path; do nothing when `path` already holds this build.

    The weights are a function of `seed`, of the warm-up and of its transcripts. With a warm-up, the tokenizer
    also learns the words of the transcripts, so that prompts are short.

    Args:
        path: directory of the checkpoint; an older build in it is replaced in one step.
        seed: of the initial weights.
        warm_up: supervised training that follows, or None for random weights.
        show_progress: draw a progress bar while training.

    Raises:
        UserError: `path` holds something that this function did not write, or the transcripts are unusable.
    """
    path = Path(path)
    conversations = warm_up.draw() if warm_up else []
    fingerprint = _fingerprint(seed, warm_up, conversations)
    if _is_built(path, fingerprint):
        remove_leftovers(path)
        return path
    tokenizer = build_tokenizer(_texts(conversations))
    processor = build_processor(tokenizer)
    model = build_model(tiny_config(tokenizer), seed)
    if warm_up:
        run_warm_up(model, processor, conversations, warm_up, show_progress=show_progress)
    with atomic_dir(path) as directory, _no_progress_bars():
        processor.save_pretrained(directory)
        model.save_pretrained(directory)
        text = json.dumps(fingerprint, indent=2, sort_keys=True) + "\n"
        (directory / FINGERPRINT_FILE).write_text(text, encoding="utf-8")
        for file in directory.iterdir():
            # the weights are written for their owner alone
            file.chmod(0o644)
    return path


def _fingerprint(seed: int, settings: WarmUp | None, conversations: Sequence[Conversation]) -> dict:
    """Return everything that the bytes of a build depend on, as plain JSON values."""
    sources = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        sources.update(file.name.encode() + b"\0" + file.read_bytes())
    return {
        "seed": seed,
        "warm_up": settings.numbers() | {"conversations": digest(conversations)} if settings else None,
        "sources": sources.hexdigest(),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def _is_built(path: Path, fingerprint: dict) -> bool:
    """Tell whether `path` holds the build; refuse a directory of anything else, which would be lost."""
    if not path.exists():
        return False
    sample = path / FINGERPRINT_FILE
    if not sample.is_file():
        if path.is_dir() and not any(path.iterdir()):
            return False
        raise UserError(f"{path} exists and is not a tiny checkpoint of docagent-rl; choose another path")
    try:
        found = json.loads(sample.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return found == fingerprint and (path / "model.safetensors").is_file()


def _texts(conversations: Iterable[Conversation]) -> Iterator[str]:
    for conversation in conversations:
        for message in conversation:
            content = message["content"]
            if isinstance(content, str):
                yield content
            else:
                yield from (part["text"] for part in content if "text" in part)


@contextmanager
def _no_progress_bars() -> Generator[None]:
    was_enabled = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            transformers_logging.enable_progress_bar()
