"""Agents of ALDEN without a model: search, fetch pages by number, answer in a box."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from docagent_rl.envs.script import Act, Move, Script, ScriptContext
from docagent_rl.envs.scripted_agent import AgentState, ScriptedAgent
from docagent_rl.envs.text_ranking import TextRanking
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.systems.alden.actions import AldenPageForm, FetchSyntax, Modality
from docagent_rl.systems.alden.config import AldenConfig
from docagent_rl.systems.alden.rewards import REFUSAL

_TAGS = {Move.SEARCH: "search", Move.FETCH: "fetch", Move.ANSWER: "answer"}
_AGAIN = 0.65
"""Share of fetches that repeat a page that was just shown."""
_ABSENT = 0.3
"""Share of the other fetches that name a page that does not exist."""


def _fetched(config: AldenConfig, page: int, form: AldenPageForm | None) -> str:
    """Return a page number in the syntax of a fetch."""
    ordinal = "-th" if config.fetch_syntax is FetchSyntax.ORDINAL else ""
    return f"{f'{form}, ' if form else ''}{page}{ordinal}"


class AldenAgent(ScriptedAgent[AldenConfig]):
    """Searches for the first gold page, fetches what searches do not find, answers in a box."""

    title = "ALDEN"
    tags = _TAGS
    thoughts: ClassVar = {
        Move.SEARCH: "I need the page about {}.",
        Move.FETCH: "That page has more about {}.",
        Move.ANSWER: "I know the {}.",
    }
    # a turn without a valid action ends the trajectory
    forgives = False

    @property
    def pages_a_search(self) -> int:
        """See `ScriptedAgent`."""
        return self.config.search.pages_per_search

    def legal(self, state: AgentState) -> tuple[Move, ...]:
        """See `ScriptedAgent`."""
        if state.last:
            return (Move.ANSWER,)
        fetch = (Move.FETCH,) if self.config.fetch else ()
        return (Move.SEARCH, *fetch, Move.ANSWER)

    def right(self, state: AgentState) -> Act:
        """See `ScriptedAgent`."""
        if state.last or (state.searches and not state.missing):
            return Act(Move.ANSWER, text=state.answer)
        if state.searches and self.config.fetch:
            return Act(Move.FETCH, pages=(state.missing[0],))
        return self.search_for(state)

    def argument(self, act: Act, state: AgentState) -> object:
        """See `ScriptedAgent`; a fetch requests text if no images are allowed."""
        match act.move:
            case Move.FETCH:
                form = AldenPageForm.IMAGE if self.config.max_images else AldenPageForm.TEXT
                return _fetched(
                    self.config, act.pages[0].page, form if self.config.hybrid else None
                )
            case Move.ANSWER:
                return f"\\boxed{{{REFUSAL if act.text == NOT_ANSWERABLE else act.text}}}"
        return super().argument(act, state)


class AldenScript(Script[AldenConfig]):
    """Mostly calls tools at first, often repeating a call, and then answers more and more often."""

    title = "ALDEN"
    tags = _TAGS
    thoughts: ClassVar = {
        Move.SEARCH: "I need the {}.",
        Move.FETCH: "I open the {}.",
        Move.ANSWER: "The {} is enough.",
    }
    warm_up: ClassVar = {"pool": 160, "short_steps": 260, "full_steps": 36, "batch_size": 4}

    @classmethod
    def configs(cls, config: AldenConfig) -> Sequence[AldenConfig]:
        """See `Script.configs`: both modalities, since they differ in little but the fetch syntax.

        Turns do not depend on the ranking of the texts, so one ranking is enough.
        """
        shared = config.search.model_copy(update={"text_ranking": TextRanking.SHARED})
        config = config.model_copy(update={"search": shared})
        other = Modality.VISUAL if config.hybrid else Modality.HYBRID
        return config, config.model_copy(update={"modality": other})

    def moves(self, context: ScriptContext) -> Mapping[Move, float]:
        """See `Script.moves`."""
        if context.turn == 1:
            return {Move.SEARCH: 0.5, Move.FETCH: 0.47 * self.config.fetch, Move.ANSWER: 0.03}
        return {Move.SEARCH: 0.3, Move.FETCH: 0.5 * self.config.fetch, Move.ANSWER: 0.2}

    def argument(self, act: Act, state: ScriptContext) -> object:
        """See `TurnWriter`."""
        if act.move is Move.FETCH:
            form = state.rng.choice(list(AldenPageForm)) if self.config.hybrid else None
            return _fetched(self.config, self._page(state), form)
        argument = super().argument(act, state)
        return f"\\boxed{{{argument}}}" if act.move is Move.ANSWER else argument

    def _page(self, state: ScriptContext) -> int:
        """Return a page that was just shown, a likely page, or a page that does not exist."""
        if state.shown and state.chance(_AGAIN):
            return state.rng.choice(state.shown)
        return state.absent_page() if state.chance(_ABSENT) else state.likely_pages(1)[0]


AGENT = AldenAgent
SCRIPT = AldenScript
