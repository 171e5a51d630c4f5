"""Chat turns as token ids, by the model's own template and processor."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from docagent_rl.envs.base import ImagePart, Message, Observation
from docagent_rl.errors import UserError
from docagent_rl.rollout.ledger import Placed

_ASSISTANT = "docagent-assistant-turn"
_INVISIBLE = "\u200b"


@dataclass(frozen=True)
class ChatCodec:
    """Turns observations into token ids and sampled ids into text.

    Observation tokens come from the chat template: a conversation is rendered once with and once without the
    new messages, and the difference is tokenised. Image placeholders are expanded to the number of features
    of each image, the rule of the Qwen-VL processors (a test holds the two equal).

    Text of a document or a user may spell a special token (`<|im_end|>`). Such spellings are broken by an
    invisible character before rendering, so that content can never open a turn or stand in for an image.

    Args:
        tokenizer: the model's tokenizer.
        processor: the model's processor; `None` for a text-only model.
        template_kwargs: passed on to the chat template.
    """

    tokenizer: Any
    processor: Any | None = None
    template_kwargs: tuple[tuple[str, Any], ...] = ()

    @cached_property
    def image_token_id(self) -> int | None:
        """Id of the image placeholder, `None` for a text-only model."""
        if self.processor is None:
            return None
        token_id = getattr(self.processor, "image_token_id", None)
        if token_id is None:
            token_id = self.tokenizer.convert_tokens_to_ids(self.processor.image_token)
        return int(token_id)

    @cached_property
    def end_of_turn_id(self) -> int:
        """The id that ends an assistant turn."""
        ids = self._encode(self._closing)
        return ids[0]

    @cached_property
    def control_ids(self) -> frozenset[int]:
        """Special ids that no turn may hold: all of the tokenizer's but end-of-turn."""
        special = {i for i, token in self.tokenizer.added_tokens_decoder.items() if token.special}
        return frozenset(special - {self.end_of_turn_id})

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of sampled ids, special tokens left out."""
        return self.tokenizer.decode(list(token_ids), skip_special_tokens=True)

    def prompt_ids(self, prompt: Observation, images: Sequence[Placed] = ()) -> list[int]:
        """Tokens of the prompt, the header of the first assistant turn included."""
        text = self._render(self._messages(prompt.messages), generation=True)
        return self._expand(self._encode(text), images)

    def observation_ids(
        self, observation: Observation, images: Sequence[Placed] = (), *, closed: bool
    ) -> list[int]:
        """Tokens between an assistant turn and the next.

        Args:
            observation: the new messages.
            images: their images, in order.
            closed: the policy sampled the end-of-turn id itself, so it is not repeated.
        """
        base = [{"role": "user", "content": "."}, {"role": "assistant", "content": _ASSISTANT}]
        text = self._render(base + self._messages(observation.messages), generation=True)
        ids = self._encode(text[text.index(_ASSISTANT) + len(_ASSISTANT) :])
        return self._expand(ids[1:] if closed else ids, images)

    @cached_property
    def _closing(self) -> str:
        text = self._render(
            [{"role": "user", "content": "."}, {"role": "assistant", "content": _ASSISTANT}], generation=False
        )
        closing = text[text.index(_ASSISTANT) + len(_ASSISTANT) :]
        ids = self._encode(closing)
        if not ids or ids[0] not in self.tokenizer.added_tokens_decoder:
            raise UserError(
                "the chat template of this model does not end an assistant turn with a special token; "
                "multi-turn rollouts need one"
            )
        return closing

    @cached_property
    def _spellings(self) -> re.Pattern[str]:
        tokens = sorted(
            (t.content for t in self.tokenizer.added_tokens_decoder.values() if t.special),
            key=len,
            reverse=True,
        )
        return re.compile("|".join(re.escape(t) for t in tokens) or r"(?!)")

    def _defuse(self, text: str) -> str:
        return self._spellings.sub(lambda m: m[0][0] + _INVISIBLE + m[0][1:], text)

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        rendered = []
        for message in messages:
            parts = [
                {"type": "image"}
                if isinstance(p, ImagePart)
                else {"type": "text", "text": self._defuse(p.text)}
                for p in message.parts
            ]
            plain = all(p["type"] == "text" for p in parts)
            content = "".join(p["text"] for p in parts) if plain else parts
            rendered.append({"role": message.role.value, "content": content})
        return rendered

    def _render(self, messages: list[dict[str, Any]], *, generation: bool) -> str:
        renderer = self.processor if self.processor is not None else self.tokenizer
        return renderer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=generation, **dict(self.template_kwargs)
        )

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)

    def _expand(self, ids: list[int], images: Sequence[Placed]) -> list[int]:
        if self.image_token_id is None:
            if images:
                raise UserError("the model has no image processor, but the environment shows images")
            return ids
        sizes = iter([image.num_tokens for image in images])
        expanded: list[int] = []
        for token_id in ids:
            repeat = next(sizes) if token_id == self.image_token_id else 1
            expanded.extend([token_id] * repeat)
        return expanded
