"""Agents of UniDoc-RL without a model: search, select, magnify, note, answer."""

from collections.abc import Mapping
from typing import ClassVar

from docagent_rl.actions.coordinates import on_view
from docagent_rl.documents import PageRef
from docagent_rl.envs.effects import Candidates, Magnified, NoNewPage, PagesShown, Selected
from docagent_rl.envs.script import Act, Move, Script, ScriptContext
from docagent_rl.envs.scripted_agent import AgentState, ScriptedAgent
from docagent_rl.envs.views import last_view
from docagent_rl.systems.unidoc_rl.config import UniDocConfig

_TAGS = {Move.SEARCH: "search", Move.SELECT: "select", Move.CROP: "bbox", Move.ANSWER: "answer"}


class UniDocAgent(ScriptedAgent[UniDocConfig]):
    """Searches, selects, magnifies gold boxes, writes notes and answers."""

    title = "UniDoc-RL"
    tags = _TAGS
    thoughts: ClassVar = {
        Move.SEARCH: "I need the page about {}.",
        Move.SELECT: "That image speaks of {}.",
        Move.CROP: "The part about {} is small, I look closer.",
        Move.ANSWER: "This tells the {}.",
    }

    @property
    def pages_a_search(self) -> int:
        """See `ScriptedAgent`."""
        return self.config.search.candidates

    def look(self, state: AgentState) -> None:
        """See `ScriptedAgent`; a page counts as read when it is selected."""
        effect = state.effect
        state.images += len(effect.views)
        if isinstance(effect, Selected | PagesShown):
            state.look([view.page for view in effect.views])

    def legal(self, state: AgentState) -> tuple[Move, ...]:
        """See `ScriptedAgent`."""
        if self._closing(state):
            return (Move.ANSWER,)
        if isinstance(state.effect, Candidates):
            return (Move.SELECT, Move.SEARCH, Move.ANSWER)
        crop = self.config.grammar.crop and isinstance(state.effect, Selected | PagesShown)
        return (Move.SEARCH, Move.CROP, Move.ANSWER) if crop else (Move.SEARCH, Move.ANSWER)

    def right(self, state: AgentState) -> Act:
        """See `ScriptedAgent`."""
        if self._closing(state):
            return Act(Move.ANSWER, text=state.answer)
        if isinstance(state.effect, Candidates):
            right = [number for number, page in enumerate(state.brought) if page in state.missing]
            if right or state.left <= 2 or not self._goes_on(state):
                return Act(Move.SELECT, index=right[0] if right else 0)
        page = self.to_magnify(state) if self.config.grammar.crop else None
        whole = isinstance(state.effect, Selected | PagesShown)
        if page is not None and whole and state.left > self.needs(state):
            return Act(
                Move.CROP, pages=(page,), boxes=state.boxes(page)[: self.config.crop.max_boxes]
            )
        if self._goes_on(state):
            return self.search_for(state)
        return Act(Move.ANSWER, text=state.answer)

    def needs(self, state: AgentState) -> int:
        """See `ScriptedAgent`."""
        return len(state.missing) * (1 + self.config.grammar.select) + 1

    def write(self, act: Act, state: AgentState) -> str:
        """See `ScriptedAgent`; the agent notes what it read before it continues."""
        turn = super().write(act, state)
        read = state.seen and state.effect.views
        if not read or act.move not in (Move.SEARCH, Move.ANSWER):
            return turn
        known = act.text if act.move is Move.ANSWER else f"Page {state.seen[-1].page} was read."
        return f"<think>I note what it says.</think><information>{known}</information>{turn}"

    def argument(self, act: Act, state: AgentState) -> object:
        """See `ScriptedAgent`."""
        if act.move is Move.CROP:
            view = last_view(state.effect, self.config.coords.frame)
            return [on_view(box, *view) for box in act.boxes]
        return super().argument(act, state)

    def _closing(self, state: AgentState) -> bool:
        """Return whether only an answer is executed."""
        return state.last or state.images > self.config.image_limit

    def _goes_on(self, state: AgentState) -> bool:
        steps = 1 + self.config.grammar.select
        return (bool(state.missing) or not state.searches) and state.left > steps


class UniDocScript(Script[UniDocConfig]):
    """Selects after a search, then magnifies, searches again or answers with a note."""

    title = "UniDoc-RL"
    tags = _TAGS
    thoughts: ClassVar = {
        Move.SEARCH: "I need the {}.",
        Move.SELECT: "It shows the {}.",
        Move.CROP: "I look at the {}.",
        Move.ANSWER: "The {} is enough.",
    }
    warm_up: ClassVar = {"pool": 128, "short_steps": 220, "full_steps": 24}

    def moves(self, context: ScriptContext) -> Mapping[Move, float]:
        """See `Script.moves`; boxes need a selected page."""
        match context.effect:
            case Candidates():
                return {Move.SELECT: 0.88, Move.ANSWER: 0.12}
            case Selected() | Magnified() | PagesShown():
                return {
                    Move.CROP: 0.4 * self.config.grammar.crop,
                    Move.SEARCH: 0.05,
                    Move.ANSWER: 0.55,
                }
            case NoNewPage():
                return {Move.SEARCH: 0.4, Move.ANSWER: 0.6}
        return {Move.SEARCH: 0.9, Move.ANSWER: 0.1}

    def action(self, act: Act, state: ScriptContext) -> str:
        """See `TurnWriter`; an answer usually follows a note."""
        action = super().action(act, state)
        if act.move is not Move.ANSWER or not state.chance(0.8):
            return action
        return action.replace("answer>", "information>") + action

    def argument(self, act: Act, state: ScriptContext) -> object:
        """See `TurnWriter`."""
        match act.move:
            case Move.SELECT:
                return self._index(state)
            case Move.CROP:
                return [state.corners() for _ in range(1 + state.chance(0.2))]
        return super().argument(act, state)

    def _index(self, state: ScriptContext) -> int:
        """Return the index of a gold candidate, of any candidate, or sometimes a nonexistent
        one.
        """
        own = state.sample.doc_id
        right = [n for n, ref in enumerate(state.brought) if PageRef(own, ref.page) in state.gold]
        if right and state.chance(0.5):
            return right[0]
        count = len(state.brought) or self.config.search.candidates
        return state.rng.randrange(count + state.chance(0.04))


AGENT = UniDocAgent
SCRIPT = UniDocScript
