"""Agents of VRAG-RL without a model: search, zoom, answer."""

from collections.abc import Mapping
from typing import ClassVar

from docagent_rl.actions.coordinates import on_view
from docagent_rl.envs.effects import Magnified, NoNewPage, PagesShown
from docagent_rl.envs.script import Act, Move, Script, ScriptContext
from docagent_rl.envs.scripted_agent import AgentState, ScriptedAgent
from docagent_rl.envs.views import last_view
from docagent_rl.systems.vrag_rl.config import VragConfig

_TAGS = {Move.SEARCH: "search", Move.CROP: "bbox", Move.ANSWER: "answer"}


class VragAgent(ScriptedAgent[VragConfig]):
    """Searches for each gold page, zooms if its boxes are known, and answers."""

    title = "VRAG-RL"
    tags = _TAGS
    thoughts: ClassVar = {
        Move.SEARCH: "I need the page about {}.",
        Move.CROP: "The part about {} is small, I look closer.",
        Move.ANSWER: "The pages tell the {}.",
    }

    @property
    def pages_a_search(self) -> int:
        """See `ScriptedAgent`."""
        return self.config.search.pages_per_search

    def legal(self, state: AgentState) -> tuple[Move, ...]:
        """See `ScriptedAgent`."""
        if state.last:
            return (Move.ANSWER,)
        crop = (Move.CROP,) if self.config.grammar.crop and state.seen else ()
        return (Move.SEARCH, *crop, Move.ANSWER)

    def right(self, state: AgentState) -> Act:
        """See `ScriptedAgent`."""
        if state.last:
            return Act(Move.ANSWER, text=state.answer)
        page = self.to_magnify(state) if self.config.grammar.crop else None
        if (
            page is not None
            and isinstance(state.effect, PagesShown)
            and state.left > len(state.missing) + 1
        ):
            return Act(Move.CROP, pages=(page,), boxes=state.boxes(page)[:1])
        if state.missing or not state.searches:
            return self.search_for(state)
        return Act(Move.ANSWER, text=state.answer)

    def argument(self, act: Act, state: AgentState) -> object:
        """See `ScriptedAgent`."""
        if act.move is Move.CROP:
            return on_view(act.boxes[0], *last_view(state.effect, self.config.coords.frame))
        return super().argument(act, state)


class VragScript(Script[VragConfig]):
    """Searches first, then zooms or searches again, then answers."""

    title = "VRAG-RL"
    tags = _TAGS
    thoughts: ClassVar = {
        Move.SEARCH: ("I need the {}.", "I will search for the {}."),
        Move.CROP: ("I look closer at the {}.", "I zoom into the {}."),
        Move.ANSWER: ("The {} shows the answer.", "I have enough evidence."),
    }
    warm_up: ClassVar = {"pool": 128, "short_steps": 200, "full_steps": 36}

    def moves(self, context: ScriptContext) -> Mapping[Move, float]:
        """See `Script.moves`: nothing can be cropped before the first image."""
        if not isinstance(context.effect, PagesShown | Magnified | NoNewPage):
            return {Move.SEARCH: 0.88, Move.ANSWER: 0.12}
        return {Move.SEARCH: 0.26, Move.CROP: 0.36 * self.config.grammar.crop, Move.ANSWER: 0.38}


AGENT = VragAgent
SCRIPT = VragScript
