"""Chat turns as token ids, by the model's own template and processor."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jinja2 import TemplateError
from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import encodable
from docagent_rl.base.untrusted import inserted
from docagent_rl.config import plain_section
from docagent_rl.envs.base import ImagePart, Message, Observation, TextPart
from docagent_rl.rollout.images import marks, merges
from docagent_rl.rollout.ledger import Placed

_ASSISTANT = "docagent-assistant-turn"


def template_kwargs(run: DictConfig) -> dict[str, Any]:
    """Return a run's arguments of the chat template (`data.apply_chat_template_kwargs`)."""
    given = OmegaConf.select(run, "data.apply_chat_template_kwargs")
    return plain_section(given) if given else {}


@dataclass(frozen=True)
class ChatCodec:
    """Turns observations into token ids and sampled ids into text.

    Observation tokens come from the chat template: a conversation is rendered once with and once
    without the new messages, and the difference is tokenised. Image placeholders are expanded to
    the number of features of each image, with the marks around them that a processor adds (a test
    holds the two equal).

    Text of a document or a user may spell a special token (`<|im_end|>`). Such spellings are broken
    by an invisible character before rendering, so that content can never open a turn or stand in
    for an image. Lone surrogates, which no tokenizer takes, become question marks.

    A template may open the assistant's turn with more than its header: Qwen3's puts an empty
    thought there when `enable_thinking` is false. Such a tail is part of the prompt or of the
    observation before the turn. Templates also drop the thoughts of earlier turns when they render
    a conversation anew; nothing is rendered anew here, so within one context a policy keeps what it
    wrote. `template_check` refuses templates of which a part does not say what the whole would. A
    text-only model has no `processor`.
    """

    tokenizer: Any
    processor: Any | None = None
    template_kwargs: tuple[tuple[str, Any], ...] = ()

    @cached_property
    def image_token_id(self) -> int | None:
        """The id of the image placeholder, `None` for a text-only model."""
        if self.processor is None:
            return None
        token_id = getattr(self.processor, "image_token_id", None)
        if token_id is None:
            token_id = self.tokenizer.convert_tokens_to_ids(self.processor.image_token)
        return int(token_id)

    @cached_property
    def end_of_turn_id(self) -> int:
        """The id that ends an assistant turn."""
        return self.text_ids(self._closing)[0]

    @cached_property
    def control_ids(self) -> frozenset[int]:
        """Special ids that no turn may hold: all of the tokenizer's but end-of-turn."""
        special = {i for i, token in self.tokenizer.added_tokens_decoder.items() if token.special}
        return frozenset(special - {self.end_of_turn_id})

    def text_ids(self, text: str) -> list[int]:
        """Return the tokens of a text as it stands: nothing is broken up, nothing added."""
        # a template may bring surrogates of its own
        return self.tokenizer.encode(encodable(text), add_special_tokens=False)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of sampled ids, special tokens left out."""
        return self.tokenizer.decode(list(token_ids), skip_special_tokens=True)

    def prompt_ids(self, prompt: Observation, images: Sequence[Placed] = ()) -> list[int]:
        """Return the tokens of the prompt, the header of the first assistant turn included."""
        text = self.render(self._messages(prompt.messages), generation=True)
        return self._expand(self.text_ids(text), images)

    def observation_ids(
        self,
        observation: Observation,
        images: Sequence[Placed] = (),
        *,
        closed: bool,
        shown: int = 0,
    ) -> list[int]:
        """Return the tokens between an assistant turn and the next.

        `closed`: the policy sampled the end-of-turn id itself, so it is not repeated. `shown`
        counts images of the context so far: templates may number them (Qwen's "Picture 3: ", with
        `add_vision_id`).
        """
        before = shown if images and self._counts_images else 0
        text = self._after_a_turn(self._messages(observation.messages), before)
        ids = self.text_ids(text)
        return self._expand(ids[1:] if closed else ids, images)

    def _after_a_turn(self, messages: list[dict[str, Any]], shown: int) -> str:
        """Return what the template puts after an assistant's turn, behind `shown` images."""
        content = [{"type": "image"}] * shown + [{"type": "text", "text": "."}] if shown else "."
        base = [{"role": "user", "content": content}, {"role": "assistant", "content": _ASSISTANT}]
        text = self.render(base + messages, generation=True)
        return text[text.index(_ASSISTANT) + len(_ASSISTANT) :]

    @cached_property
    def _counts_images(self) -> bool:
        """Return whether the template's text for an image depends on how many came before."""
        image = [{"role": "user", "content": [{"type": "image"}]}]
        return self._after_a_turn(image, 0) != self._after_a_turn(image, 1)

    @cached_property
    def _closing(self) -> str:
        text = self.render(
            [{"role": "user", "content": "."}, {"role": "assistant", "content": _ASSISTANT}],
            generation=False,
        )
        closing = text[text.index(_ASSISTANT) + len(_ASSISTANT) :]
        ids = self.text_ids(closing)
        if not ids or ids[0] not in self.tokenizer.added_tokens_decoder:
            raise UserError(
                "the chat template of this model does not end an assistant turn with a special "
                "token; "
                "multi-turn rollouts need one"
            )
        return closing

    @cached_property
    def _spellings(self) -> re.Pattern[str]:
        tokens = [t.content for t in self.tokenizer.added_tokens_decoder.values() if t.special]
        return re.compile("|".join(re.escape(t) for t in tokens) or r"(?!)")

    def _seams(self, text: str) -> Iterator[int]:
        """Yield a place inside of every special token, also of one that begins within another."""
        place = 0
        while found := self._spellings.search(text, place):
            place = found.start() + 1
            yield place

    def _defuse(self, texts: Sequence[str]) -> list[str]:
        """Break special tokens in texts that the template joins: two halves may spell what neither
        does.
        """
        return inserted(texts, self._seams("".join(texts)))

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        rendered = []
        for message in messages:
            parts: list[dict[str, str]] = []
            for image, group in itertools.groupby(
                message.parts, lambda p: isinstance(p, ImagePart)
            ):
                if image:
                    parts += [{"type": "image"} for _ in group]
                else:
                    texts = self._defuse(
                        [encodable(p.text) for p in group if isinstance(p, TextPart)]
                    )
                    parts += [{"type": "text", "text": text} for text in texts]
            plain = all(p["type"] == "text" for p in parts)
            content = "".join(p["text"] for p in parts) if plain else parts
            rendered.append({"role": message.role.value, "content": content})
        return rendered

    @cached_property
    def unread(self) -> frozenset[str]:
        """The template arguments whose names do not occur in the model's template: they change
        nothing.
        """
        return frozenset(name for name, _ in self.template_kwargs if name not in self._source)

    @cached_property
    def _source(self) -> str:
        return str(self._renderer.chat_template)

    @property
    def _renderer(self) -> Any:
        return self.processor if getattr(self.processor, "chat_template", None) else self.tokenizer

    def render(self, messages: list[dict[str, Any]], *, generation: bool, **more: Any) -> str:
        """Write messages by the chat template, and with `generation` the header of an assistant's
        turn.

        Raises:
            UserError: the template refuses them.
        """
        # a processor takes what its template does not read for its own, with a warning at every
        # call
        given = {**dict(self.template_kwargs), **more}
        read = {name: value for name, value in given.items() if name in self._source}
        try:
            return self._renderer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=generation, **read
            )
        except TemplateError as error:
            roles = ", ".join(message["role"] for message in messages)
            raise UserError(
                f"the model's chat template refuses a conversation of {roles}: {error}"
            ) from error

    def _expand(self, ids: list[int], images: Sequence[Placed]) -> list[int]:
        if self.image_token_id is None:
            if images:
                raise UserError(
                    "the model has no image processor, but the environment shows images"
                )
            return ids
        sizes = iter([image.num_tokens for image in images])
        expanded: list[int] = []
        for token_id in ids:
            if token_id != self.image_token_id:
                expanded.append(token_id)
            else:
                before, after = self._marks
                expanded += [*before, *[token_id] * next(sizes), *after]
        return expanded

    @cached_property
    def _marks(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tokens around the placeholders of an image that the template leaves to the
        processor.
        """
        images = getattr(self.processor, "image_processor", None)
        return ((), ()) if images is None or merges(images) else marks(self.processor)


_TEXT = "Ab 12,  <search>c</search>\n\n\td & \"e\" 'é' {f}"
_SAID = "docagent-probe-turn"
_DAY = "docagent-probe-day"
Messages = list[dict[str, Any]]


def check_template(codec: ChatCodec) -> None:
    """Check that the model's chat template writes every message as it is, and alike wherever it
    stands.

    White space around a message may go, a system prompt may be added where there is none, and
    thoughts of earlier turns may be left out: none of that changes a part of what has been
    rendered.

    Raises:
        UserError: it does not; names the first thing that it does instead.
    """
    for problem in _problems(codec):
        name = getattr(codec.tokenizer, "name_or_path", "") or "the model"
        raise UserError(
            f"the chat template of {name} {problem}. Trajectories are rendered a turn at a time, "
            "by "
            "different processes and on different days: name a template that does not do so, by "
            "actor_rollout_ref.model.custom_chat_template"
        )


def _problems(codec: ChatCodec) -> Iterator[str]:
    opening = _opening_talk(codec)
    opened = codec.render(opening, generation=False)
    if opened.count(_TEXT) != len(opening):
        yield (
            f"changes, drops or repeats the text of a message: {_TEXT!r} becomes part of {opened!r}"
        )
    if codec.image_token_id is not None:
        parts = [{"type": "image"}, {"type": "text", "text": _TEXT}]
        shown = codec.render([{"role": "user", "content": parts}], generation=False)
        if shown.count(_TEXT) != 1 or codec.text_ids(shown).count(codec.image_token_id) != 1:
            yield f"loses an image or the text beside it, which become {shown!r}"
    if not codec.render([*opening, _said(1), _asked()], generation=False).startswith(opened):
        yield "rewrites earlier messages when others follow"
    if _DAY in codec.render(opening, generation=True, strftime_now=lambda _: _DAY):
        yield (
            "writes the date into the prompt, unless data.apply_chat_template_kwargs gives one "
            "(Llama 3 "
            "reads date_string)"
        )
    after = [_after(codec, turns) for turns in (1, 3)]
    if None in after:
        yield "changes, drops or repeats what the assistant said"
    elif after[0] != after[1]:
        yield (
            f"writes messages by their position: {after[0]!r} after one turn, {after[1]!r} "
            "after "
            "three"
        )
    elif codec.text_ids(after[0] or "")[:1] != [codec.end_of_turn_id]:
        yield "ends an assistant's turn otherwise when a message follows"
    elif not _ends_alike(codec, opening):
        yield "opens the assistant's first turn otherwise than later ones"


def _asked() -> dict[str, Any]:
    return {"role": "user", "content": _TEXT}


def _said(number: int) -> dict[str, Any]:
    return {"role": "assistant", "content": f"{_SAID}-{number}."}


def _opening_talk(codec: ChatCodec) -> Messages:
    """Return system and user, or the user alone where a template takes no system prompt."""
    both = [{"role": "system", "content": _TEXT}, _asked()]
    try:
        codec.render(both, generation=False)
    except UserError:
        return both[1:]
    return both


def _after(codec: ChatCodec, turns: int) -> str | None:
    """Return the text after the last of some turns, the next header included; `None` where a text
    is lost.
    """
    talk = [each for number in range(turns) for each in (_asked(), _said(number))]
    before, found, after = codec.render([*talk, _asked()], generation=True).partition(
        talk[-1]["content"]
    )
    return (
        None if not found or talk[-1]["content"] in before + after or _TEXT not in after else after
    )


def _ends_alike(codec: ChatCodec, opening: Messages) -> bool:
    headers = set()
    for talk in (opening, [*opening, _said(1), _asked()]):
        plain, open_ = (codec.render(talk, generation=generation) for generation in (False, True))
        headers.add(open_.removeprefix(plain) if open_.startswith(plain) else None)
    return len(headers) == 1 and None not in headers
