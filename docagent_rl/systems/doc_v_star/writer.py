"""The observations of Doc-V*: lines of the prompt file, images, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from docagent_rl.envs.base import ImagePart, Message, Observation, Part, Role, TextPart
from docagent_rl.envs.images import Picture
from docagent_rl.envs.token_budget import TokenCounter, estimated_tokens
from docagent_rl.envs.tool_env import Say
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.overview import OverviewPlan, overview
from docagent_rl.systems.doc_v_star.state import State

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
    """Writes the observations of one trajectory."""

    def __init__(self, config: DocVStarConfig, state: State, line: Say) -> None:
        self._config = config
        self._state = state
        self.line = line

    def note(self, part: str, pages: Sequence[int]) -> str:
        """Return a part of the prompt file about some pages, of which it names the first few."""
        return self.line(part, pages=pages[:_LISTED], more=max(0, len(pages) - _LISTED))

    def plan_overview(self, prompt_tokens: int | None, count: TokenCounter) -> bool:
        """Decide what the overview shows: the best that fits the prompt. Draws nothing.

        Args:
            prompt_tokens: tokens of the prompt at most; `None` sets no limit.
            count: of tokens.

        Returns:
            Whether there is such an overview. If not, the trajectory has the best without a limit.
        """
        settings, state = self._config.overview, self._state
        if not settings.enabled:
            return True
        best = next(settings.plans(len(state.pages)))
        for plan in settings.plans(len(state.pages)):
            if prompt_tokens is None or self._fits(plan, prompt_tokens, count):
                state.overview = plan
                return True
        state.overview = best
        return False

    def _fits(self, plan: OverviewPlan, prompt_tokens: int, count: TokenCounter) -> bool:
        room = prompt_tokens - _PROMPT_TOKENS
        room -= self._config.plan_tokens(plan) + plan.sheets * _IMAGE_MARKS
        # the texts are counted last: most plans of a very long document fail before
        if room < 0:
            return False
        self._state.overview = plan
        texts = [self.line("system"), self.line("user"), *self._headings(plan)]
        last = [item for item in self._last_words() if isinstance(item, str)]
        return sum(count(text + "\n") for text in (*texts, *last)) <= room

    def opening(self) -> Observation:
        """Return rules, question and overview; counted."""
        rules, items = self.line("system"), [self.line("user"), *self._overview(), *self._last_words()]
        self.count([rules])
        self.count(items)
        return Observation((Message(Role.SYSTEM, (TextPart(rules),)), Message(Role.USER, _parts(items))))

    def _last_words(self) -> list[Item]:
        """Return what ends the prompt of an trajectory of one turn."""
        return self.ending(1) if self._state.last_turn == 1 else []

    def feedback(self, items: Iterable[Item], turn: int) -> tuple[Part, ...]:
        """Return what an action led to, and what every observation before a turn ends with; counted."""
        items = [*items, *self.ending(turn)]
        self.count(items)
        return _parts(items)

    def ending(self, turn: int) -> list[Item]:
        """Return the working memory and the turns left, before a turn."""
        items: list[Item] = []
        if self._config.memory.enabled and self._state.summaries:
            summaries = [{"turn": number, "text": text} for number, text in self._state.summaries]
            items.append(self.line("memory", summaries=summaries))
        left = self._state.last_turn - turn
        part = "turns_left" if left or not self._config.final_turn_notice else "final_turn"
        return [*items, self.line(part, turn=turn, left=left)]

    def count(self, items: Iterable[Item]) -> None:
        """Add a message to the count of the context."""
        if self._config.context_tokens is not None:
            self._state.tokens += self.cost(items) + _MESSAGE_TOKENS

    def cost(self, items: Iterable[Item]) -> int:
        """Return the tokens: of images by the rule of the display, of texts by a cautious estimate."""
        return sum(
            estimated_tokens(item) + 1
            if isinstance(item, str)
            else self._config.display.tokens(item.size) + _IMAGE_MARKS
            for item in items
        )

    def room(self, turn: int | None = None) -> int | None:
        """Return the tokens left for pages; `None` without a limit.

        Args:
            turn: the turn before which they are to be shown, so that room is kept for the rest of that
                observation.
        """
        limit = self._config.context_tokens
        if limit is None:
            return None
        rest = self.cost(self.ending(turn)) + _MESSAGE_TOKENS if turn else 0
        return limit - self._config.reserve_tokens - self._state.tokens - rest

    def _overview(self) -> Iterator[Item]:
        plan = self._state.overview
        if plan is None:
            return
        sheets = overview(plan.choose(self._state.pages), plan.style)
        for heading, sheet in zip(self._headings(plan), sheets, strict=True):
            yield heading
            yield sheet

    def _headings(self, plan: OverviewPlan) -> Iterator[str]:
        """Yield what is written above each sheet; the first also says which pages are left out."""
        pages = plan.choose(range(self._state.first_page, self._state.last_page + 1))
        size, remark = plan.style.pages_per_sheet, self.line("sampled") + "\n" if plan.stride > 1 else ""
        for number in range(plan.sheets):
            group = pages[number * size : (number + 1) * size]
            line = self.line(
                "sheet", sheet=number + 1, sheets=plan.sheets, first_page=group[0], last_page=group[-1]
            )
            yield remark + line
            remark = ""


def _parts(items: Iterable[Item]) -> tuple[Part, ...]:
    """Return lines and images as the parts of a message, a line break wherever two of them meet."""
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
