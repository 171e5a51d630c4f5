"""MDocAgent (arXiv 2503.13964): five agents read texts and images that two searches have found."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import ClassVar

from pydantic import Field

from docagent_rl.base.prompts import PromptSpec
from docagent_rl.envs.base import AssistantTurn, Observation
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.lab.eval.baselines.agents import (
    AgentsConfig,
    AgentsEnv,
    Relay,
    json_object,
    read_report,
    refs_of,
)
from docagent_rl.lab.eval.baselines.env import BaselineState, PageForm, PagePrompt

_VARIABLES = (
    "question num_pages first_page last_page page doc_id text several agent shown clue reports"
)


class MDocAgentRole(StrEnum):
    """The agents, in the order of their turns."""

    GENERAL = "general"
    """Answers from texts and images."""
    CRITICAL = "critical"
    """Says what to look for in the texts, and what in the images."""
    TEXT = "text"
    """Answers from the texts."""
    IMAGE = "image"
    """Answers from the images."""
    SUMMARIZING = "summarizing"
    """Answers from what general, text and image agent have written."""


_ORDER = tuple(MDocAgentRole)
_READERS = (MDocAgentRole.GENERAL, MDocAgentRole.TEXT, MDocAgentRole.IMAGE)
"""The agents whose answers are summarized."""
_PARTS = (*_ORDER, "user", "page_label", "page_text", "no_text")


class MDocAgentConfig(AgentsConfig):
    """Configuration of `MDocAgentEnv`."""

    top_k: int = Field(1, ge=1)
    """Number of page texts, and number of page images: 1, as in the released configuration."""
    prompt: ClassVar = "baseline_mdocagent"

    @property
    def assistant_turns(self) -> int:
        """Assistant turns of a trajectory, one for each agent."""
        return len(_ORDER)

    @property
    def max_images(self) -> int:
        """Most images of a context."""
        return self.top_k


class MDocAgentEnv(AgentsEnv[MDocAgentConfig]):
    """One search for texts and one for images, then a turn of each agent.

    The critical agent writes JSON with a clue for the text agent (`text`) and one for the image
    agent (`image`); without it they work without clues. Pages are added rank by rank, image before
    text, while they fit; the number of those left out is counted.

    In the released code the critical agent continues the conversation of the general agent, and the
    summarizing agent does not see the question. Here each agent has a context of its own, in which
    the critical agent sees the pages again and the general agent's answer, and all see the
    question.
    """

    title = "MDocAgent"
    spec = PromptSpec(frozenset(_PARTS), variables=frozenset(_VARIABLES.split()))

    def set_up(self) -> None:
        """Begin without reports and clues."""
        self._reports: dict[str, str] = {}
        self._clues: dict[str, str] = {}

    @property
    def agent(self) -> MDocAgentRole:
        """See `AgentsEnv.agent`."""
        return _ORDER[min(len(self.state.log.turns), len(_ORDER) - 1)]

    def variables(self, state: BaselineState) -> Mapping[str, object]:
        """See `AgentsEnv.variables`; adds the clue for the agent, and what others have written."""
        clue = self._clues.get(self.agent, "")
        return {**super().variables(state), "clue": clue, "reports": self._reports}

    def show_prompt(self, state: BaselineState) -> Observation:
        """Return the context of the general agent."""
        image_refs, text_refs = refs_of(self._image_hits), refs_of(self._text_hits)
        images = self.shown_pages(image_refs, 0, PageForm.IMAGE)
        texts = self.shown_pages(text_refs, 0, PageForm.TEXT)
        ranked = (page for pair in zip_longest(images, texts) for page in pair if page is not None)
        instructions = max((self.text(agent) for agent in _ORDER), key=len)
        text = f"{instructions}{self.text('user', shown=0)}"
        self.add_fitting(
            state, ranked, len(image_refs) + len(text_refs), text, self._config.report_tokens
        )
        state.show(state.material)
        return self.context(state)

    def pages(self, state: BaselineState) -> Sequence[PagePrompt]:
        """See `AgentsEnv.pages`."""
        match self.agent:
            case MDocAgentRole.TEXT:
                return [page for page in state.material if not page.image_tokens]
            case MDocAgentRole.IMAGE:
                return [page for page in state.material if page.image_tokens]
            case MDocAgentRole.SUMMARIZING:
                return ()
        return state.material

    def read(self, state: BaselineState, turn: AssistantTurn) -> LoggedTurn:
        """See `ToolEnv.read`; only the summarizing agent answers."""
        if self.agent is MDocAgentRole.SUMMARIZING:
            return super().read(state, turn)
        state.begin_turn()
        return LoggedTurn(len(state.log.turns) + 1, read_report(turn.text, turn.stop))

    def take(self, state: BaselineState, logged: LoggedTurn) -> None:
        """See `AgentsEnv.take`."""
        action = logged.action
        report = action.text if isinstance(action, Relay) else ""
        if self.agent in _READERS:
            self._reports[self.agent] = self.shortened(report)
            return
        found = json_object(report) or {}
        for agent in (MDocAgentRole.TEXT, MDocAgentRole.IMAGE):
            self._clues[agent] = self.shortened(str(found.get(agent) or ""))
