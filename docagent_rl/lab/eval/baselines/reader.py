"""One turn: a question, what stands beside it, and an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docagent_rl.actions.base import Answer
from docagent_rl.base.prompts import PromptSpec
from docagent_rl.base.untrusted import without_tokens
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import AssistantTurn, EndReason, Message, Observation, Role, StepResult
from docagent_rl.envs.sections import SearchScope
from docagent_rl.lab.eval.baselines.config import Material, ReaderConfig
from docagent_rl.lab.eval.baselines.env import BaselineEnv, BaselineState, Shown
from docagent_rl.lab.eval.baselines.grammar import ReaderGrammar
from docagent_rl.samples.sample import Sample

_VARIABLES = "question material shown left_out num_pages page doc_id text several"


class ReaderEnv(BaselineEnv):
    """A question with nothing, the whole document or the pages of one search beside it.

    Pages are added in order while they fit `EnvServices.prompt_tokens`; how many were left out, for that or
    by `max_pages`, is told to the model and counted (`pages_left_out`).
    """

    title = "reader"
    spec = PromptSpec(
        frozenset({"system", "user", "page_label", "page_text", "no_text"}),
        variables=frozenset(_VARIABLES.split()),
    )
    _found: tuple[PageRef, ...] = ()

    @staticmethod
    def make_grammar(config: ReaderConfig) -> ReaderGrammar:
        """Return the grammar."""
        return ReaderGrammar()

    def variables(self, state: BaselineState) -> Mapping[str, Any]:
        """See `BaselineEnv.variables`; with the material."""
        found, material = super().variables(state), self._config.material
        several = found["several"] and material is Material.SEARCH
        return {**found, "material": material.value, "several": several}

    async def prepare(self, state: BaselineState) -> None:
        """Search for the question, where the material is what a search finds."""
        if self._config.material is not Material.SEARCH:
            return
        sample, inside = state.sample, self._config.scope is SearchScope.DOCUMENT
        hits = await self._services.retriever.search(
            sample.question, doc_id=sample.doc_id if inside else None, top_k=self._config.top_k
        )
        self._found = tuple(hit.ref for hit in hits)

    def opening(self, sample: Sample) -> Observation:
        """See `DocEnv.opening`. What a search would find is made to fit, and may be nothing."""
        return self.begin(self.new_state(sample))

    def show_prompt(self, state: BaselineState) -> Observation:
        """Show the question and its material."""
        state.material = self._material(state)
        state.show(state.material.pages)
        parts = [part for page in state.material.pages for part in page.parts]
        user = self.part("user", **_counts(state.material))
        system = Message(Role.SYSTEM, (self.part("system"),))
        return Observation((system, Message(Role.USER, (*parts, user))))

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Take the answer; a turn without one ends the trajectory too."""
        state = self.running
        logged, end, outcome = self.read(state, turn), EndReason.INVALID, 0.0
        state.log.turns.append(logged)
        if isinstance(logged.action, Answer):
            end, outcome = EndReason.ANSWERED, await self.score(state, logged, logged.action)
        else:
            logged.effect = {"kind": "invalid"}
        return StepResult(None, end=end, terms=self.settle(end, outcome), info=self.info(logged))

    def adapted(self) -> str | None:
        """Return whether pages did not fit."""
        return "pages left out" if self.state.material.crowded_out else None

    def _material(self, state: BaselineState) -> Shown:
        """Return the first pages that fit together; the others are not even read."""
        every = self._refs(state)
        refs = every[: self._config.max_pages] if self._config.material is Material.DOCUMENT else every
        room = self._room(len(every))
        shown = Shown(beyond=len(every) - len(refs))
        for page in self.shown_pages(refs, 0):
            room -= page.tokens
            if room < 0:
                break
            shown.pages.append(page)
        shown.crowded_out = len(refs) - len(shown.pages)
        return shown

    def _room(self, pages: int) -> float:
        """Return the tokens that are left for pages, beside the longest note on so many left out."""
        if self._services.prompt_tokens is None:
            return float("inf")
        text = self.text("system") + self.text("user", **_counts(Shown(beyond=pages)))
        used = self._services.count_tokens(without_tokens(text)) + self._config.spare_tokens
        return self._services.prompt_tokens - used

    def _refs(self, state: BaselineState) -> list[PageRef]:
        match self._config.material:
            case Material.DOCUMENT:
                doc_id = state.sample.doc_id
                last = self._services.store.document(doc_id).num_pages
                return [PageRef(doc_id, number) for number in range(1, last + 1)]
            case Material.SEARCH:
                return list(self._found)
        return []


def _counts(shown: Shown) -> dict[str, int]:
    return {"shown": len(shown.pages), "left_out": shown.left_out}
