"""ViDoRAG (arXiv 2502.18017): a seeker, an inspector and an answer agent look at page images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import Field

from docagent_rl.actions.base import Answer, Invalid, InvalidReason, ParsedTurn, Select
from docagent_rl.base.prompts import PromptSpec
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import AssistantTurn, EndReason, Observation, TextPart
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.lab.eval.baselines.agents import (
    AgentsConfig,
    AgentsEnv,
    Relay,
    json_object,
    read_report,
)
from docagent_rl.lab.eval.baselines.env import BaselineState, PageForm, PagePrompt
from docagent_rl.lab.eval.baselines.leading_hits import leading_hits

_TRIES = 3
"""Replies that an agent may give until one can be read, as in the released code."""
_LABEL_TOKENS = 8
"""Tokens of the line that numbers an image."""
_VARIABLES = (
    "question num_pages first_page last_page page doc_id text several agent shown number note"
)


class ViDoRagRole(StrEnum):
    """The agents."""

    SEEKER = "seeker"
    """Chooses among the pages that were found."""
    INSPECTOR = "inspector"
    """Answers from the chosen pages, or says what is missing."""
    ANSWER = "answer"
    """Answers from the pages that the inspector named."""


_PARTS = (*ViDoRagRole, "user", "image_label", "page_label")


@dataclass(frozen=True, slots=True)
class Inspection(Relay):
    """Pass on a draft of the answer with the pages that it rests on, or what is missing with the
    pages to keep.
    """

    choices: tuple[int, ...]
    """Numbers of pages among those that the inspector sees, from 1."""
    answered: bool


class ViDoRagConfig(AgentsConfig):
    """Configuration of `ViDoRagEnv`."""

    top_k: int = Field(10, ge=1)
    """Most pages of a ranking; the mixture is fitted to the scores of twice as many."""
    min_pages: int = Field(5, ge=1)
    """Pages of a ranking that are kept in any case, if it has as many."""
    max_turns: int = Field(12, ge=1)
    """Most turns of all agents together, of which the last is the answer agent's. The released code
    has no limit.
    """
    prompt: ClassVar = "baseline_vidorag"

    @property
    def assistant_turns(self) -> int:
        """Most assistant turns of a trajectory."""
        return self.max_turns

    @property
    def max_images(self) -> int:
        """Most images of a context: two rankings without a page in common."""
        return 2 * self.top_k


class ViDoRagEnv(AgentsEnv[ViDoRagConfig]):
    """A search whose scores decide how many pages there are, then rounds of seeker and inspector.

    Both rankings keep the pages of their better scores (`leading_hits`). The seeker chooses among
    them. The inspector answers from what was chosen so far: if it refers to all of these pages, the
    answer stands; otherwise the answer agent gets its draft and the pages that it refers to. If
    the inspector cannot answer, it keeps some of the pages and says what is missing, and the seeker
    chooses among those that it has not chosen yet. All reply in JSON; an agent whose reply cannot
    be read has three tries.

    In the released code the pages of a context are one image, a grid, whose free cells are filled
    with further pages, and texts are only used by the search. Here each page is an image of its
    own, and no cell is filled. When no page is left to choose, or none was chosen, the answer agent
    answers from what the inspector has, where the released code fails if that is nothing.
    """

    title = "ViDoRAG"
    spec = PromptSpec(frozenset(_PARTS), variables=frozenset(_VARIABLES.split()))

    def set_up(self) -> None:
        """Begin with the seeker."""
        self._next = ViDoRagRole.SEEKER
        self._candidates: list[PagePrompt] = []
        self._chosen: list[PagePrompt] = []
        self._note = ""
        self._tries = 0

    @property
    def agent(self) -> ViDoRagRole:
        """See `AgentsEnv.agent`."""
        last = len(self.state.log.turns) >= self._config.max_turns - 1
        return ViDoRagRole.ANSWER if last else self._next

    @property
    def depth(self) -> int:
        """See `AgentsEnv.depth`."""
        return 2 * self._config.top_k

    def variables(self, state: BaselineState) -> Mapping[str, object]:
        """See `AgentsEnv.variables`; adds what the inspector has written for the agent."""
        note = self._note if self.agent is self._next else ""
        return {**super().variables(state), "note": note}

    def show_prompt(self, state: BaselineState) -> Observation:
        """Return the first context of the seeker."""
        refs = self._found()
        instructions = max((self.text(agent) for agent in ViDoRagRole), key=len)
        text = f"{instructions}{self.text('user', shown=0)}"
        reserved = self._config.report_tokens + _LABEL_TOKENS * len(refs)
        pages = self.shown_pages(refs, 0, PageForm.IMAGE)
        self.add_fitting(state, pages, len(refs), text, reserved)
        self._candidates = list(state.material)
        state.show(state.material)
        return self.context(state)

    def pages(self, state: BaselineState) -> Sequence[PagePrompt]:
        """See `AgentsEnv.pages`; each page has a number."""
        seeks = self.agent is ViDoRagRole.SEEKER
        pages = self._candidates if seeks else self._chosen
        labels = (f"{self.text('image_label', number=n)}\n" for n in range(1, len(pages) + 1))
        return [
            replace(page, parts=(TextPart(label), *page.parts))
            for label, page in zip(labels, pages, strict=True)
        ]

    def read(self, state: BaselineState, turn: AssistantTurn) -> LoggedTurn:
        """See `ToolEnv.read`; each agent has its own form of JSON."""
        state.begin_turn()
        parsed = self._parsed(read_report(turn.text, turn.stop))
        self._tries = self._tries + 1 if isinstance(parsed.action, Invalid) else 0
        return LoggedTurn(len(state.log.turns) + 1, parsed)

    def limit(self, state: BaselineState, logged: LoggedTurn) -> EndReason | None:
        """See `ToolEnv.limit`; an agent that cannot be read ends the trajectory too."""
        if self._tries >= _TRIES:
            return EndReason.INVALID
        return super().limit(state, logged)

    def take(self, state: BaselineState, logged: LoggedTurn) -> None:
        """See `AgentsEnv.take`; after an unreadable reply it is the same agent's turn again."""
        action = logged.action
        if isinstance(action, Select):
            self._seek(action)
        elif isinstance(action, Inspection):
            self._inspect(action)

    def _seek(self, action: Select) -> None:
        numbers = {number - 1 for number in action.choices}
        pages = list(enumerate(self._candidates))
        self._chosen += [page for at, page in pages if at in numbers]
        self._candidates = [page for at, page in pages if at not in numbers]
        self._next = ViDoRagRole.INSPECTOR if numbers else ViDoRagRole.ANSWER
        self._note = ""

    def _inspect(self, action: Inspection) -> None:
        numbers = {number - 1 for number in action.choices}
        self._chosen = [page for at, page in enumerate(self._chosen) if at in numbers]
        seeks = not action.answered and bool(self._candidates)
        self._next = ViDoRagRole.SEEKER if seeks else ViDoRagRole.ANSWER
        self._note = self.shortened(action.text) if seeks or action.answered else ""

    def _parsed(self, parsed: ParsedTurn) -> ParsedTurn:
        """Return a report as the action of the agent, or as an invalid one."""
        report = parsed.action
        if not isinstance(report, Relay):
            return parsed
        found = json_object(report.text)
        action = None if found is None else self._action(report, found)
        if action is None:
            detail = f"the {self.agent} agent's reply is not the JSON object that was asked for"
            action = Invalid(None, None, InvalidReason.BAD_ARGUMENT, detail)
        return replace(parsed, action=action)

    def _action(
        self, report: Relay, found: Mapping[str, Any]
    ) -> Select | Inspection | Answer | None:
        """Return the action of a reply; `None` if it lacks something."""
        span = report.argument
        answer = found.get("answer")
        match self.agent:
            case ViDoRagRole.SEEKER:
                choices = numbers_in(found.get("choice"), len(self._candidates))
                return None if choices is None else Select(span, span, choices)
            case ViDoRagRole.ANSWER:
                return None if answer is None else Answer(span, span, plain(answer))
        if answer is not None:
            used = numbers_in(found.get("reference"), len(self._chosen))
            if not used:
                return None
            if len(set(used)) == len(self._chosen):
                return Answer(span, span, plain(answer))
            return Inspection(span, span, plain(answer), used, answered=True)
        kept = numbers_in(found.get("choice"), len(self._chosen))
        missing = found.get("information")
        if kept is None or missing is None:
            return None
        return Inspection(span, span, plain(missing), kept, answered=False)

    def _found(self) -> list[PageRef]:
        """Return the pages that either ranking keeps, those of a document in its order."""
        sizes = {"least": self._config.min_pages, "most": self._config.top_k}
        rankings = (self._image_hits, self._text_hits)
        kept = [hit.ref for hits in rankings for hit in leading_hits(hits, **sizes)]
        documents = list(dict.fromkeys(ref.doc_id for ref in kept))
        return sorted(set(kept), key=lambda ref: (documents.index(ref.doc_id), ref.page))


def numbers_in(value: object, most: int) -> tuple[int, ...] | None:
    """Return a JSON list of whole numbers from 1 to `most`; `None` if it is none."""
    if not isinstance(value, list):
        return None
    if not all(isinstance(each, float) and each in range(1, most + 1) for each in value):
        return None
    return tuple(int(each) for each in value)


def plain(value: object) -> str:
    """Return a JSON value as text, a whole number without its fraction."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list):
        return ", ".join(plain(each) for each in value)
    return str(value).strip()
