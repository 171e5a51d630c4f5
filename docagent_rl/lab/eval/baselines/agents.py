"""The environment of baselines in which one model plays several agents, each in its own context."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pydantic import Field

from docagent_rl.actions.base import Action, Invalid, InvalidReason, ParsedTurn, StopCause
from docagent_rl.actions.grammar import TagScanner, strict_json
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import AssistantTurn, Message, Observation, Part, Role, StepResult
from docagent_rl.envs.checks import pages_outside
from docagent_rl.envs.text_ranking import TextRanking
from docagent_rl.envs.token_budget import cut_to_tokens
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.lab.eval.baselines.env import BaselineEnv, BaselineState, PageConfig, PagePrompt
from docagent_rl.lab.eval.baselines.reader import ReaderGrammar
from docagent_rl.retrieval import Hit
from docagent_rl.samples.sample import Sample

_SCANNER = TagScanner(())


class AgentsConfig(PageConfig):
    """Settings of baselines of several agents."""

    text_ranking: TextRanking = TextRanking.SHARED
    """The ranking of page texts: that of `docagent.text_retriever`, or the one of the images."""
    report_tokens: int = Field(1024, ge=1)
    """Most tokens of what one agent passes on to another; the rest is cut off."""


def has_two_rankings(config: AgentsConfig) -> bool:
    """Return whether texts and images are ranked separately."""
    return config.text_ranking is TextRanking.OWN


@dataclass(frozen=True, slots=True)
class Relay(Action):
    """Pass a text on to the other agents."""

    text: str


def read_report(text: str, stop: StopCause = StopCause.END_OF_TURN) -> ParsedTurn:
    """Read all text outside of thoughts as a report, even one that was cut off."""
    scan = _SCANNER.scan(text)
    if stop is StopCause.CONTROL_TOKEN:
        detail = "the turn holds a control token"
        return ParsedTurn(Invalid(None, None, InvalidReason.CONTROL_TOKEN, detail), (), scan.hidden)
    said = scan.visible.strip()
    start = scan.visible.index(said)
    span = (start, start + len(said))
    return ParsedTurn(Relay(span, span, said), (), scan.hidden)


def json_object(text: str) -> Mapping[str, Any] | None:
    """Return the JSON object between the first and the last brace; `None` if it is none."""
    try:
        found = strict_json(text[text.find("{") : text.rfind("}") + 1])
    # deeply nested brackets overflow the parser's stack
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


AgentsConfigT = TypeVar("AgentsConfigT", bound=AgentsConfig)


class AgentsEnv(BaselineEnv[AgentsConfigT], Generic[AgentsConfigT]):
    """A pipeline of agents that search once with the question and then look at what was found.

    The same model plays all agents. Each of their turns has a context of its own: the instructions
    of the agent, pages, and what others have reported. The system message is the part of the prompt
    file that is called as the agent.
    """

    _image_hits: Sequence[Hit] = ()
    _text_hits: Sequence[Hit] = ()

    @staticmethod
    def make_grammar(config: AgentsConfigT) -> ReaderGrammar:
        """See `System.make_grammar`; it reads the turn of the agent that answers."""
        return ReaderGrammar()

    @property
    @abstractmethod
    def agent(self) -> str:
        """The name of the agent whose turn is next."""

    @abstractmethod
    def pages(self, state: BaselineState) -> Sequence[PagePrompt]:
        """Return the pages that the next agent sees."""

    @property
    def depth(self) -> int:
        """Number of pages that each ranking returns."""
        return self._config.top_k

    @abstractmethod
    def take(self, state: BaselineState, logged: LoggedTurn) -> None:
        """Take in the turn of the agent, which is not the answer."""

    def variables(self, state: BaselineState) -> Mapping[str, object]:
        """See `BaselineEnv.variables`; adds the agent."""
        return {**super().variables(state), "agent": self.agent}

    async def prepare(self, state: BaselineState) -> None:
        """Search for images and texts with the question."""
        services = self._services
        sample = state.sample
        arguments: dict[str, Any] = {
            "doc_id": self.searched(sample),
            "top_k": self.depth,
            "exclude": pages_outside(sample, services.store),
        }
        self._image_hits = await services.retriever.search(sample.question, **arguments)
        self._text_hits = self._image_hits
        if has_two_rankings(self._config):
            self._text_hits = await services.second().search(sample.question, **arguments)

    def opening(self, sample: Sample) -> Observation:
        """See `DocEnv.opening`; without the pages of a search."""
        return self.begin(self.new_state(sample))

    async def step(self, turn: AssistantTurn) -> StepResult:
        """See `ToolEnv.step`; the turn of the next agent starts a new context."""
        result = await super().step(turn)
        if result.observation is None:
            return result
        state = self.running
        state.log.turns[-1].image_tokens = sum(page.image_tokens for page in self.pages(state))
        return replace(result, observation=replace(self.context(state), fresh=True))

    async def execute(self, state: BaselineState, logged: LoggedTurn, text: str) -> Sequence[Part]:
        """See `ToolEnv.execute`; `step` shows the next agent its context instead of a result."""
        self.take(state, logged)
        return ()

    def context(self, state: BaselineState) -> Observation:
        """Return the messages for the next agent."""
        pages = self.pages(state)
        parts = [part for page in pages for part in page.parts]
        system = Message(Role.SYSTEM, (self.part(self.agent),))
        return Observation(
            (system, Message(Role.USER, (*parts, self.part("user", shown=len(pages)))))
        )

    def shortened(self, text: str) -> str:
        """Return a text as it is passed on to another agent."""
        return cut_to_tokens(text, self._config.report_tokens, self._services.count_tokens)


def refs_of(hits: Sequence[Hit]) -> list[PageRef]:
    """Return the pages of hits, in order."""
    return [hit.ref for hit in hits]
