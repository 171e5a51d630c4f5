"""One-turn baselines: a question with its material, and an answer."""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from docagent_rl.actions.base import Answer, Invalid, ParsedTurn, StopCause
from docagent_rl.actions.grammar import TagGrammar, TagScanner, read_answer
from docagent_rl.base.prompts import PromptSpec
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import EndReason, Message, Observation, Role
from docagent_rl.envs.checks import pages_outside
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.lab.eval.baselines.env import BaselineEnv, BaselineState, PageConfig, PageForm
from docagent_rl.samples.sample import Sample

_TAGGED = TagGrammar({"answer": read_answer})
_SCANNER = TagScanner(("answer",))
_VARIABLES = (
    "question material shown left_out num_pages first_page last_page page doc_id text several"
)


class Material(StrEnum):
    """The material that the prompt shows in addition to the question."""

    NONE = "none"
    DOCUMENT = "document"
    """The pages of the document (or of the question's window of it) from the first one, as many as
    fit.
    """
    EVIDENCE = "evidence"
    """The pages with evidence, in the order of the document, as many as fit; none if the question
    has no evidence.
    """
    SEARCH = "search"
    """The best pages of one search with the question as the query, as many as fit."""


class ReaderConfig(PageConfig):
    """Configuration of `ReaderEnv`."""

    material: Material = Material.NONE
    max_pages: int | None = Field(None, ge=1)
    """Most pages of a whole document or with evidence; null: as many as fit."""

    prompt: ClassVar = "baseline_reader"

    @property
    def max_images(self) -> int:
        """Most images of a trajectory; without `max_pages`, a whole document or its evidence counts
        as one.
        """
        if self.form is PageForm.TEXT or self.material is Material.NONE:
            return 0
        return self.top_k if self.material is Material.SEARCH else self.max_pages or 1


class ReaderGrammar:
    """Grammar of one answer: the first closed `<answer>` outside of thoughts, otherwise all text
    outside of thoughts.

    The fallback makes models comparable that were never taught the tag.
    """

    def parse(self, text: str, stop: StopCause = StopCause.END_OF_TURN) -> ParsedTurn:
        """See `Grammar.parse`."""
        parsed = _TAGGED.parse(text, stop)
        if not isinstance(parsed.action, Invalid) or stop is not StopCause.END_OF_TURN:
            return parsed
        scan = _SCANNER.scan(text)
        said = scan.visible.strip()
        if scan.opened or scan.hidden_open or not said:
            return parsed
        start = scan.visible.index(said)
        span = (start, start + len(said))
        return ParsedTurn(Answer(span, span, said), (), scan.hidden)


class ReaderEnv(BaselineEnv[ReaderConfig]):
    """A question with nothing else, with the whole document, with the pages that hold its evidence,
    or with those of one search.

    Pages are added in order while they fit into `EnvServices.prompt_tokens`; the number of pages
    left out is stated in the prompt and counted (`pages_left_out`).
    """

    title = "reader"
    spec = PromptSpec(
        frozenset({"system", "user", "page_label", "page_text", "no_text"}),
        variables=frozenset(_VARIABLES.split()),
    )
    _found: tuple[PageRef, ...] = ()

    @staticmethod
    def make_grammar(config: ReaderConfig) -> ReaderGrammar:
        """See `System.make_grammar`."""
        return ReaderGrammar()

    def variables(self, state: BaselineState) -> Mapping[str, object]:
        """See `BaselineEnv.variables`; adds the material."""
        found = super().variables(state)
        material = self._config.material
        several = found["several"] and material in (Material.SEARCH, Material.EVIDENCE)
        return {**found, "material": material.value, "several": several}

    async def prepare(self, state: BaselineState) -> None:
        """Search with the question, if the material is the result of a search."""
        if self._config.material is not Material.SEARCH:
            return
        sample = state.sample
        hits = await self._services.retriever.search(
            sample.question,
            doc_id=self.searched(sample),
            top_k=self._config.top_k,
            exclude=pages_outside(sample, self._services.store),
        )
        self._found = tuple(hit.ref for hit in hits)

    def opening(self, sample: Sample) -> Observation:
        """See `DocEnv.opening`; without the pages of a search."""
        return self.begin(self.new_state(sample))

    def show_prompt(self, state: BaselineState) -> Observation:
        """Show the question and its material."""
        self._fill(state)
        state.show(state.material)
        parts = [part for page in state.material for part in page.parts]
        user = self.part("user", shown=len(state.material), left_out=state.left_out)
        system = Message(Role.SYSTEM, (self.part("system"),))
        return Observation((system, Message(Role.USER, (*parts, user))))

    def limit(self, state: BaselineState, logged: LoggedTurn) -> EndReason:
        """See `ToolEnv.limit`; a turn without an answer ends the trajectory too."""
        return EndReason.INVALID

    def _fill(self, state: BaselineState) -> None:
        """Add the first pages that fit together."""
        every = self._refs(state)
        searched = self._config.material is Material.SEARCH
        refs = every if searched else every[: self._config.max_pages]
        # assume the longest note about pages left out
        text = self.text("system") + self.text("user", shown=0, left_out=len(every))
        self.add_fitting(state, self.shown_pages(refs, 0), len(every), text)

    def _refs(self, state: BaselineState) -> list[PageRef]:
        match self._config.material:
            case Material.DOCUMENT:
                return [PageRef(state.sample.doc_id, number) for number in state.pages]
            case Material.EVIDENCE:
                return sorted(state.gold)
            case Material.SEARCH:
                return list(self._found)
        return []
