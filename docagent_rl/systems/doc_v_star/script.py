"""A scripted policy for Doc-V*: thoughts in blocks, retrieval, fetching, answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from docagent_rl.envs.script import Move, Script, ScriptContext
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.thought import ThoughtBlock

BODIES = {
    ThoughtBlock.ANALYSIS: ("Look.", "See.", "Check."),
    ThoughtBlock.PLAN: ("Search.", "Read."),
    ThoughtBlock.SUMMARY: ("Found.", "Open."),
}
"""One word a block: five pairs of tags are long enough already."""


ABSENT = 0.04
"""Share of fetches of a page that does not exist."""


class DocVStarScript(Script):
    """Looks for pages at first and answers more and more.

    Args:
        config: of the system.
    """

    warm_up: ClassVar[Mapping[str, Any]] = {"pool": 96, "short_steps": 180, "full_steps": 20}

    def __init__(self, config: DocVStarConfig) -> None:
        self._retrieval = config.retrieval.enabled
        self._fetch = config.fetch.enabled
        self._analysis = config.thought.analysis
        self._most = min(2, config.fetch.max_pages)

    def moves(self, context: ScriptContext) -> Mapping[Move, float]:
        """See `Script.moves`."""
        if context.last:
            return {Move.ANSWER: 1.0}
        look = {Move.SEARCH: 0.4 * self._retrieval, Move.FETCH: 0.6 * self._fetch}
        if context.turn == 1:
            return {**look, Move.ANSWER: 0.05}
        return {**look, Move.ANSWER: 1.0}

    def write(self, move: Move, context: ScriptContext) -> str:
        """See `Script.write`."""
        thought = f"<think>{''.join(self._blocks(context))}</think>"
        return f"{thought}<action>{self._action(move, context)}</action>"

    def _blocks(self, context: ScriptContext) -> list[str]:
        first = context.turn == 1
        due = [ThoughtBlock.PLAN if first else ThoughtBlock.RELEVANT_PAGES, ThoughtBlock.SUMMARY]
        if first or self._analysis:
            due.insert(0, ThoughtBlock.ANALYSIS)
        return [f"<{block}>{self._body(block, context)}</{block}>" for block in due]

    def _body(self, block: ThoughtBlock, context: ScriptContext) -> str:
        if block is ThoughtBlock.RELEVANT_PAGES:
            return f"[{', '.join(map(str, self._relevant(context)))}]"
        return context.rng.choice(BODIES[block])

    def _relevant(self, context: ScriptContext) -> list[int]:
        """The pages just shown, now and then only the gold ones among them."""
        right = [page for page in context.shown if page in context.gold]
        return right if right and context.chance(0.3) else context.shown

    def _action(self, move: Move, context: ScriptContext) -> str:
        match move:
            case Move.SEARCH:
                return f"<retrieval_page>{' '.join(context.query())}</retrieval_page>"
            case Move.FETCH:
                pages = (
                    [context.absent_page()] if context.chance(ABSENT) else context.likely_pages(self._most)
                )
                return f"<fetch_page>[{', '.join(map(str, pages))}]</fetch_page>"
            case Move.ANSWER:
                return f"<answer>{context.answer()}</answer>"
        raise ValueError(f"Doc-V* has no {move}")
