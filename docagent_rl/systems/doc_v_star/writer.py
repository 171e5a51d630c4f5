"""What an episode of Doc-V* is shown: lines of the prompt file, images, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from docagent_rl.base.prompts import PromptSpec, PromptTemplate
from docagent_rl.envs.base import ImagePart, Message, Observation, Part, Role, TextPart
from docagent_rl.envs.images import Picture
from docagent_rl.envs.token_budget import TokenCounter, estimated_tokens
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.episode import Episode
from docagent_rl.systems.doc_v_star.overview import overview
from docagent_rl.systems.doc_v_star.overview_fit import OverviewPlan

DOC_V_STAR_PROMPT = PromptSpec(
    required=frozenset(
        {
            "system", "user", "sampled", "sheet", "page", "visited", "none_left", "none_found",
            "no_such_page", "no_number", "surplus", "withheld", "memory", "turns_left", "final_turn",
            "reminder",
        }
    ),
    variables=frozenset(
        {
            "question", "num_pages", "first_page", "last_page", "turns", "k", "fetch_pages", "retrieval",
            "fetch", "analysis", "overview", "header", "stride", "shown", "memory",
            "abstention",
            "page", "pages", "more", "sheet", "sheets", "turn", "left", "reason", "summaries",
        }
    ),
    shown=frozenset({"question"}),
)  # fmt: skip
_MESSAGE_TOKENS = 8
"""What a chat template puts around a message, cautiously."""
_PROMPT_TOKENS = 64
"""What it puts around a prompt, the header of the first turn included; a margin for texts that are counted
apart, too."""
_IMAGE_MARKS = 2
"""Tokens around the visual tokens of an image."""

_LISTED = 10
"""Page numbers of a note at most; a policy may ask for any number of pages that do not exist."""

Item = str | Picture
"""A line or an image of an observation."""


class Writer:
    """Writes the observations of one episode.

    Args:
        config: what is played.
        prompt: parts as in `DOC_V_STAR_PROMPT`.
        episode: whom to write to.
    """

    def __init__(self, config: DocVStarConfig, prompt: PromptTemplate, episode: Episode) -> None:
        self._config = config
        self._prompt = prompt
        self._episode = episode

    def line(self, part: str, **variables: Any) -> str:
        """A part of the prompt file, filled in."""
        config, episode = self._config, self._episode
        known = {
            "question": episode.sample.question,
            "num_pages": len(episode.pages),
            "first_page": episode.first_page,
            "last_page": episode.last_page,
            "turns": config.assistant_turns,
            "k": config.retrieval.k(len(episode.pages)),
            "fetch_pages": config.fetch.max_pages,
            "retrieval": config.retrieval.enabled,
            "fetch": config.fetch.enabled,
            "analysis": config.thought.analysis,
            "overview": config.overview.enabled,
            "header": config.overview.header_px > 0,
            "stride": episode.overview.stride if episode.overview else 1,
            "shown": episode.overview.shown if episode.overview else 0,
            "memory": config.memory.enabled,
            "abstention": config.answer.abstentions[0].capitalize(),
        }
        return self._prompt.render(part, **{**known, **variables})

    def note(self, part: str, pages: Sequence[int]) -> str:
        """A part of the prompt file about some pages, of which it names the first few."""
        return self.line(part, pages=pages[:_LISTED], more=max(0, len(pages) - _LISTED))

    def plan_overview(self, prompt_tokens: int | None, count: TokenCounter) -> bool:
        """Decide what the overview shows: the best that fits the prompt. Draws nothing.

        Args:
            prompt_tokens: tokens of the prompt at most; `None` sets no limit.
            count: of tokens.

        Returns:
            Whether there is such an overview. If not, the episode has the best without a limit.
        """
        settings, episode = self._config.overview, self._episode
        if not settings.enabled:
            return True
        best = next(settings.plans(len(episode.pages)))
        for plan in settings.plans(len(episode.pages)):
            if prompt_tokens is None or self._fits(plan, prompt_tokens, count):
                episode.overview = plan
                return True
        episode.overview = best
        return False

    def _fits(self, plan: OverviewPlan, prompt_tokens: int, count: TokenCounter) -> bool:
        room = prompt_tokens - _PROMPT_TOKENS
        room -= self._config.plan_tokens(plan) + plan.sheets * _IMAGE_MARKS
        # the texts are counted last: most plans of a very long document fail before
        if room < 0:
            return False
        self._episode.overview = plan
        texts = [self.line("system"), self.line("user"), *self._headings(plan)]
        last = [item for item in self._last_words() if isinstance(item, str)]
        return sum(count(text + "\n") for text in (*texts, *last)) <= room

    def opening(self) -> Observation:
        """Rules, question and overview; counted."""
        rules, items = self._opening()
        self.count([rules])
        self.count(items)
        return Observation((Message(Role.SYSTEM, (TextPart(rules),)), Message(Role.USER, _parts(items))))

    def _opening(self) -> tuple[str, list[Item]]:
        return self.line("system"), [self.line("user"), *self._overview(), *self._last_words()]

    def _last_words(self) -> list[Item]:
        """What ends the prompt of an episode of one turn."""
        return self.ending(1) if self._episode.last_turn == 1 else []

    def feedback(self, items: Iterable[Item], turn: int) -> Observation:
        """What an action led to, and then what every observation ends with; counted.

        Args:
            items: what the action led to.
            turn: the turn that follows, from 1.
        """
        items = [*items, *self.ending(turn)]
        self.count(items)
        return Observation.user(*_parts(items))

    def ending(self, turn: int) -> list[Item]:
        """The working memory and the turns left, before a turn."""
        items: list[Item] = []
        if self._config.memory.enabled and self._episode.summaries:
            summaries = [{"turn": number, "text": text} for number, text in self._episode.summaries]
            items.append(self.line("memory", summaries=summaries))
        left = self._episode.last_turn - turn
        part = "turns_left" if left or not self._config.final_turn_notice else "final_turn"
        return [*items, self.line(part, turn=turn, left=left)]

    def count(self, items: Iterable[Item]) -> None:
        """Add a message to the count of the context."""
        if self._config.context_tokens is not None:
            self._episode.tokens += self.cost(items) + _MESSAGE_TOKENS

    def cost(self, items: Iterable[Item]) -> int:
        """Tokens: of images by the rule of the display, of texts by a cautious estimate."""
        return sum(
            estimated_tokens(item) + 1
            if isinstance(item, str)
            else self._config.display.tokens(item.size) + _IMAGE_MARKS
            for item in items
        )

    def room(self, turn: int | None = None) -> int | None:
        """Tokens left for pages; `None` without a limit.

        Args:
            turn: the turn before which they are to be shown, so that room is kept for the rest of that
                observation.
        """
        limit = self._config.context_tokens
        if limit is None:
            return None
        rest = self.cost(self.ending(turn)) + _MESSAGE_TOKENS if turn else 0
        return limit - self._config.reserve_tokens - self._episode.tokens - rest

    def _overview(self) -> Iterator[Item]:
        plan = self._episode.overview
        if plan is None:
            return
        sheets = overview(plan.choose(self._episode.pages), plan.style)
        for heading, sheet in zip(self._headings(plan), sheets, strict=True):
            yield heading
            yield sheet.image

    def _headings(self, plan: OverviewPlan) -> Iterator[str]:
        """What is written above each sheet; the first also says which pages are left out."""
        pages = plan.choose(range(self._episode.first_page, self._episode.last_page + 1))
        size, remark = plan.style.pages_per_sheet, self.line("sampled") + "\n" if plan.stride > 1 else ""
        for number in range(plan.sheets):
            group = pages[number * size : (number + 1) * size]
            line = self.line(
                "sheet", sheet=number + 1, sheets=plan.sheets, first_page=group[0], last_page=group[-1]
            )
            yield remark + line
            remark = ""


def _parts(items: Iterable[Item]) -> tuple[Part, ...]:
    """Lines and images as the parts of a message, a line break wherever two of them meet."""
    parts: list[Part] = []
    text = ""
    for item in items:
        if isinstance(item, str):
            text += item + "\n"
            continue
        if text:
            parts.append(TextPart(text))
        parts.append(ImagePart(item))
        text = "\n"
    if text.strip():
        parts.append(TextPart(text.rstrip("\n")))
    return tuple(parts)
