"""Conversion of chat turns to token ids with the model's own template and processor."""

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
from docagent_rl.envs.token_budget import TokenCounter
from docagent_rl.envs.token_offsets import TokenizerCounter
from docagent_rl.rollout.images import marks, merges
from docagent_rl.rollout.ledger import LedgerImage

_ASSISTANT = "docagent-assistant-turn"


def template_kwargs(run: DictConfig) -> dict[str, Any]:
    """Return a run's chat template arguments (`data.apply_chat_template_kwargs`)."""
    given = OmegaConf.select(run, "data.apply_chat_template_kwargs")
    return plain_section(given) if given else {}


@dataclass(frozen=True)
class ChatCodec:
    """Encodes observations as token ids and decodes sampled ids.

    Observation tokens come from the chat template: the new messages are rendered after a dummy
    assistant turn, and the text after that turn is tokenised. Image placeholders are expanded to
    the number of features of each image, together with the marker tokens that the processor adds
    around them (a test compares the result with the processor's).

    Text from a document or a user may spell a special token (`<|im_end|>`). An invisible character
    is inserted into such spellings before rendering, so that content can neither open a turn nor
    replace an image. Lone surrogates, which tokenizers reject, become question marks.

    A template may open the assistant's turn with more than its header: Qwen3's adds an empty
    thought if `enable_thinking` is false. This tail belongs to the prompt, or to the observation
    before the turn. Templates also drop the thoughts of earlier turns when a whole conversation is
    rendered again; that never happens here, so a policy's text stays in its context unchanged.
    `check_template` rejects templates that render a message differently on its own than within a
    conversation. A text-only model has no `processor`.
    """

    tokenizer: Any
    processor: Any | None = None
    template_kwargs: tuple[tuple[str, Any], ...] = ()

    @cached_property
    def image_token_id(self) -> int | None:
        """The id of the image placeholder; `None` for a text-only model."""
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
        """Special ids that no turn may contain: all of the tokenizer's except end-of-turn."""
        special = {i for i, token in self.tokenizer.added_tokens_decoder.items() if token.special}
        return frozenset(special - {self.end_of_turn_id})

    def text_ids(self, text: str) -> list[int]:
        """Tokenise a text as it is; special tokens are neither neutralized nor added."""
        # the template itself may contain surrogates
        return self.tokenizer.encode(encodable(text), add_special_tokens=False)

    @property
    def counter(self) -> TokenCounter:
        """The counter of the tokens of a text, as in `text_ids`."""
        fast = getattr(self.tokenizer, "backend_tokenizer", None)
        return self._count if fast is None else TokenizerCounter(fast)

    def _count(self, text: str) -> int:
        return len(self.text_ids(text))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Decode sampled ids, without special tokens."""
        return self.tokenizer.decode(list(token_ids), skip_special_tokens=True)

    def prompt_ids(self, prompt: Observation, images: Sequence[LedgerImage] = ()) -> list[int]:
        """Return the tokens of the prompt, including the header of the first assistant turn."""
        text = self.render(self._messages(prompt.messages), generation=True)
        return self._expand(self.text_ids(text), images)

    def observation_ids(
        self,
        observation: Observation,
        images: Sequence[LedgerImage] = (),
        *,
        closed: bool,
        shown: int = 0,
    ) -> list[int]:
        """Return the tokens between an assistant turn and the next.

        `closed` means that the policy sampled the end-of-turn id itself, so it is not repeated.
        `shown` is the number of images in the context so far: templates may number images (Qwen's
        "Picture 3: ", with `add_vision_id`).
        """
        before = shown if images and self._counts_images else 0
        text = self._after_a_turn(self._messages(observation.messages), before)
        ids = self.text_ids(text)
        return self._expand(ids[1:] if closed else ids, images)

    def _after_a_turn(self, messages: list[dict[str, Any]], shown: int) -> str:
        """Return the rendered text after an assistant turn that follows `shown` images."""
        content = [{"type": "image"}] * shown + [{"type": "text", "text": "."}] if shown else "."
        base = [{"role": "user", "content": content}, {"role": "assistant", "content": _ASSISTANT}]
        text = self.render(base + messages, generation=True)
        return text[text.index(_ASSISTANT) + len(_ASSISTANT) :]

    @cached_property
    def _counts_images(self) -> bool:
        """Return whether the template's text for an image depends on how many precede it."""
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
                "token; multi-turn rollouts need one"
            )
        return closing

    @cached_property
    def _spellings(self) -> re.Pattern[str]:
        tokens = [t.content for t in self.tokenizer.added_tokens_decoder.values() if t.special]
        return re.compile("|".join(re.escape(t) for t in tokens) or r"(?!)")

    def _seams(self, text: str) -> Iterator[int]:
        """Yield a position inside every special token, even if tokens overlap."""
        position = 0
        while found := self._spellings.search(text, position):
            position = found.start() + 1
            yield position

    def _neutralize(self, texts: Sequence[str]) -> list[str]:
        """Break up special tokens in adjacent texts, including those that span two texts."""
        return inserted(texts, self._seams("".join(texts)))

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        rendered = []
        for message in messages:
            parts: list[dict[str, str]] = []
            # a special token may span adjacent texts, so these are neutralized together
            for is_image, group in itertools.groupby(
                message.parts, lambda part: isinstance(part, ImagePart)
            ):
                if is_image:
                    parts += [{"type": "image"} for _ in group]
                else:
                    texts = [encodable(part.text) for part in group if isinstance(part, TextPart)]
                    parts += [{"type": "text", "text": text} for text in self._neutralize(texts)]
            is_text = all(part["type"] == "text" for part in parts)
            content = "".join(part["text"] for part in parts) if is_text else parts
            rendered.append({"role": message.role.value, "content": content})
        return rendered

    @cached_property
    def unused_kwargs(self) -> frozenset[str]:
        """The template arguments that have no effect: their names do not occur in the template."""
        return frozenset(name for name, _ in self.template_kwargs if name not in self._source)

    @cached_property
    def _source(self) -> str:
        return str(self._renderer.chat_template)

    @property
    def _renderer(self) -> Any:
        return self.processor if getattr(self.processor, "chat_template", None) else self.tokenizer

    def render(self, messages: list[dict[str, Any]], *, generation: bool, **more: Any) -> str:
        """Render messages with the chat template; `generation` appends an assistant header.

        Raises:
            UserError: the template rejects the messages.
        """
        # a processor takes arguments that its template does not use for its own, and warns at every
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
                f"the model's chat template rejects a conversation of {roles}: {error}"
            ) from error

    def _expand(self, ids: list[int], images: Sequence[LedgerImage]) -> list[int]:
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
        """The tokens that the processor, not the template, puts around an image's placeholders."""
        images = getattr(self.processor, "image_processor", None)
        return ((), ()) if images is None or merges(images) else marks(self.processor)


_TEXT = "Ab 12,  <search>c</search>\n\n\td & \"e\" 'é' {f}"
_PROBE_TURN = "docagent-probe-turn"
_PROBE_DATE = "docagent-probe-day"
Messages = list[dict[str, Any]]


def check_template(codec: ChatCodec) -> None:
    """Check that the chat template renders every message unchanged and independent of its position.

    A template may strip whitespace around a message, add a missing system prompt, and drop thoughts
    of earlier turns: none of that changes what was rendered before.

    Raises:
        UserError: the template fails the check; the message names the first problem.
    """
    for problem in _problems(codec):
        name = getattr(codec.tokenizer, "name_or_path", "") or "the model"
        raise UserError(
            f"the chat template of {name} {problem}. Trajectories are rendered one turn at a time, "
            "by different processes and on different days: choose a template that does not do this "
            "with actor_rollout_ref.model.custom_chat_template"
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
            yield f"drops an image or the text next to it, which become {shown!r}"
    talk = [*opening, _assistant_message(1), _user_message()]
    if not codec.render(talk, generation=False).startswith(opened):
        yield "rewrites earlier messages when others follow"
    if _PROBE_DATE in codec.render(opening, generation=True, strftime_now=lambda _: _PROBE_DATE):
        yield (
            "writes the current date into the prompt unless data.apply_chat_template_kwargs sets a "
            "date (Llama 3 uses date_string)"
        )
    after = [_after(codec, turns) for turns in (1, 3)]
    if None in after:
        yield "changes, drops or repeats the text of the assistant"
    elif after[0] != after[1]:
        yield (
            "renders messages differently depending on their position: "
            f"{after[0]!r} after one turn, {after[1]!r} after three"
        )
    elif codec.text_ids(after[0] or "")[:1] != [codec.end_of_turn_id]:
        yield "ends an assistant's turn differently when a message follows"
    elif not _ends_alike(codec, opening):
        yield "opens the assistant's first turn differently from later ones"


def _user_message() -> dict[str, Any]:
    return {"role": "user", "content": _TEXT}


def _assistant_message(number: int) -> dict[str, Any]:
    return {"role": "assistant", "content": f"{_PROBE_TURN}-{number}."}


def _opening_talk(codec: ChatCodec) -> Messages:
    """Return a system and a user message, or only the latter if there can be no system prompt."""
    both = [{"role": "system", "content": _TEXT}, _user_message()]
    try:
        codec.render(both, generation=False)
    except UserError:
        return both[1:]
    return both


def _after(codec: ChatCodec, turns: int) -> str | None:
    """Return the rendered text after the last of `turns` turns, including the next header.

    The value is `None` if the text of a message is lost or repeated.
    """
    talk = []
    for number in range(turns):
        talk += [_user_message(), _assistant_message(number)]
    last = talk[-1]["content"]
    rendered = codec.render([*talk, _user_message()], generation=True)
    before, found, after = rendered.partition(last)
    if not found or last in before + after or _TEXT not in after:
        return None
    return after


def _ends_alike(codec: ChatCodec, opening: Messages) -> bool:
    """Return whether the header of the assistant's first turn equals that of a later turn."""
    headers = set()
    for talk in (opening, [*opening, _assistant_message(1), _user_message()]):
        without_header = codec.render(talk, generation=False)
        with_header = codec.render(talk, generation=True)
        is_appended = with_header.startswith(without_header)
        headers.add(with_header.removeprefix(without_header) if is_appended else None)
    return len(headers) == 1 and None not in headers
