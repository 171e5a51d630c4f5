"""One turn: a question, what stands beside it, and an answer."""

from __future__ import annotations

from typing import Any

from docagent_rl.actions.base import Answer
from docagent_rl.base.prompts import PromptSpec
from docagent_rl.base.untrusted import without_tokens
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import AssistantTurn, EndReason, Message, Observation, Role, StepResult, TextPart
from docagent_rl.envs.sections import SearchScope
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.lab.eval.baselines.config import Material, ReaderConfig
from docagent_rl.lab.eval.baselines.episode import BaselineEnv, BaselineEpisode, Shown
from docagent_rl.lab.eval.baselines.grammar import ReaderGrammar
from docagent_rl.records.record import Record
from docagent_rl.retrieval import Hit

_VARIABLES = "question material shown left_out num_pages page doc_id text several"


class ReaderEnv(BaselineEnv[ReaderConfig]):
    """A question with nothing, the whole document or the pages of one search beside it.

    Pages are added in order while they fit `EnvServices.prompt_tokens`; how many were left out, for that or
    by `max_pages`, is told to the model and counted (`pages_left_out`).
    """

    prompt_spec = PromptSpec(
        frozenset({"system", "user", "page_label", "page_text", "no_text"}),
        variables=frozenset(_VARIABLES.split()),
    )
    default_prompt = "baseline_reader"
    _hits: list[Hit]

    async def prepare(self, episode: BaselineEpisode) -> None:
        """Search for the question, where the material is what a search finds."""
        if self._config.material is Material.SEARCH:
            self._hits = await self.search(episode, episode.sample.question)

    def opening(self, sample: Record) -> Observation:
        """See `DocEnv.opening`. What a search would find is made to fit, and may be nothing."""
        return self.begin(self.open_episode(sample))

    def show_prompt(self, episode: BaselineEpisode) -> Observation:
        """Show the question and its material."""
        episode.material = material = self._material(episode)
        episode.show(material.pages)
        parts = [part for page in material.pages for part in page.parts]
        return Observation(
            (
                Message(Role.SYSTEM, (TextPart(self.say("system")),)),
                Message(Role.USER, (*parts, TextPart(self._user(material)))),
            )
        )

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Take the answer; a turn without one ends the episode too."""
        logged = LoggedTurn(turn=1, parsed=ReaderGrammar().parse(turn.text, turn.stop))
        if isinstance(logged.parsed.action, Answer):
            return await self.answer(logged, logged.parsed.action)
        logged.effect = {"kind": "invalid"}
        return await self.end(logged, EndReason.INVALID)

    def adapted(self) -> str | None:
        """Return whether pages did not fit."""
        return "pages left out" if self.episode.material.crowded_out else None

    def say(self, part: str, **variables: Any) -> str:
        """See `BaselineEnv.say`."""
        material = self._config.material
        several = self._config.scope is SearchScope.CORPUS and material is Material.SEARCH
        return super().say(part, material=material.value, several=several, **variables)

    def _material(self, episode: BaselineEpisode) -> Shown:
        """Return the first pages that fit together; the others are not even read."""
        every = self._refs(episode)
        refs = every[: self._config.max_pages] if self._config.material is Material.DOCUMENT else every
        room = self._room(len(every))
        shown = Shown(beyond=len(every) - len(refs))
        for page in self.shown_pages(refs, turn=0):
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
        text = without_tokens(self.say("system") + self._user(Shown(beyond=pages)))
        used = self._services.count_tokens(text) + self._config.spare_tokens
        return self._services.prompt_tokens - used

    def _refs(self, episode: BaselineEpisode) -> list[PageRef]:
        match self._config.material:
            case Material.NONE:
                return []
            case Material.SEARCH:
                return [hit.ref for hit in getattr(self, "_hits", ())]
            case Material.DOCUMENT:
                doc_id = episode.sample.doc_id
                last = self._services.store.document(doc_id).num_pages
                return [PageRef(doc_id, number) for number in range(1, last + 1)]

    def _user(self, shown: Shown) -> str:
        return self.say("user", shown=len(shown.pages), left_out=shown.left_out)
