"""Released dialogues, replayed in the real environment: what it shows must be what they show."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from docagent_rl.actions.base import Box
from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.display import clamp_area
from docagent_rl.documents.settings import Size
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.base import DocEnv, EndReason
from docagent_rl.envs.effects import Magnified
from docagent_rl.envs.services import RetrieverService
from docagent_rl.envs.views import page_view
from docagent_rl.lab.agents.texts import EnvPlayer, whole_turn
from docagent_rl.lab.collect.dialogues import Dialogue, DialogueError, Exchange
from docagent_rl.lab.collect.rules import BoxFrame, Rejection
from docagent_rl.lab.collect.teacher import written_box
from docagent_rl.retrieval import Hit
from docagent_rl.retrieval.base import Pages
from docagent_rl.rollout.env_resources import EnvResources
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.samples.sample import Page, Sample

_RELEASED_PIXELS = (256 * 28 * 28, 512 * 28 * 28)
"""Areas to which the release resizes a page (`convert_to_llamafactory.py`, `process_image`)."""
_NUMBER = r"\s*(\d{1,5}(?:\.\d{1,6})?)\s*"
_BOX = re.compile(rf"\[{_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER}\]")
_DRAWN = re.compile(r"<bbox>.*</bbox>\s*$", re.DOTALL)


@dataclass(slots=True)
class DialogueRetriever:
    """Returns the pages that a dialogue shows after its searches, one search after the other."""

    searches: list[tuple[Page, ...]]

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """Return the pages of the next searches, in the order in which they were shown."""
        shown = [self.searches.pop(0) if self.searches else () for _ in queries]
        return [
            [Hit(PageRef(*page), 1.0 / rank) for rank, page in enumerate(pages, start=1)]
            for pages in shown
        ]


@dataclass(frozen=True, slots=True)
class BoxRewriter:
    """Rewrites the boxes of a turn from the unit of the release to that of the environment."""

    source: Size
    """The width and height of the page in the units of the release."""
    target: Size
    """The same in those of the environment."""

    def rewrite(self, text: str) -> str:
        """Return a turn with its boxes on the page rewritten, those in its thoughts too.

        Four numbers in a thought that are no box on the page, such as years, stay.

        Raises:
            DialogueError: a box of its action is not on the page.
        """
        drawn = _DRAWN.search(text)
        first = drawn.start() if drawn else len(text)

        def rewritten(found: re.Match[str]) -> str:
            numbers = [float(number) for number in found.groups()]
            box = self._fractions(numbers)
            if box is not None:
                return json.dumps(written_box(box, self.target))
            if found.start() < first:
                return found[0]
            raise DialogueError(Rejection.OUTSIDE, f"{found[0]} on {self.source}")

        return _BOX.sub(rewritten, text)

    def _fractions(self, numbers: Sequence[float]) -> Box | None:
        width, height = self.source
        x1, y1, x2, y2 = numbers
        if not (x1 < x2 <= width and y1 < y2 <= height):
            return None
        return x1 / width, y1 / height, x2 / width, y2 / height


@dataclass(slots=True)
class Replay:
    """One dialogue, replayed turn by turn."""

    dialogue: Dialogue
    frame: BoxFrame
    resources: EnvResources
    selected: Page | None = field(default=None, init=False)
    """The page to which boxes refer; None before a selection, and after the next search."""
    magnified: bool = field(default=False, init=False)
    """Boxes were drawn on that page: the environment would take further ones as boxes on a crop."""

    async def write(self, trajectory: Trajectory) -> TrajectoryTurn:
        """Return the next turn, after checking what the last one showed.

        Raises:
            DialogueError: the dialogue does not play.
        """
        exchanges = self.dialogue.exchanges
        number = len(trajectory.turns)
        if number:
            self._compare(trajectory.turns[-1], exchanges[number - 1])
        if number == len(exchanges):
            raise DialogueError(Rejection.UNFINISHED, "the environment expects another turn")
        exchange = exchanges[number]
        text = exchange.text
        if self.selected is not None:
            text = self._rewriter(self.selected).rewrite(text)
        self._follow(exchange)
        return whole_turn(text)

    def finish(self, trajectory: Trajectory) -> None:
        """Raise `DialogueError` unless the trajectory ended with the dialogue's answer."""
        last = trajectory.turns[-1].record
        if not last.valid:
            raise DialogueError(Rejection.FAULTY, last.detail or "")
        if trajectory.end != EndReason.ANSWERED.value:
            raise DialogueError(Rejection.UNFINISHED, f"it ended with {trajectory.end}")
        if len(trajectory.turns) < len(self.dialogue.exchanges):
            raise DialogueError(Rejection.UNFINISHED, "an earlier turn answers")

    def _follow(self, exchange: Exchange) -> None:
        """Note which page the boxes of the next turns are on."""
        if exchange.action in ("search", "select"):
            selects = exchange.action == "select" and exchange.pages
            self.selected = exchange.pages[0] if selects else None
            self.magnified = False
        elif exchange.action == "bbox":
            if self.magnified:
                raise DialogueError(Rejection.FAULTY, "it magnifies twice after one selection")
            self.magnified = True

    def _compare(self, turn: TrajectoryTurn, exchange: Exchange) -> None:
        """Raise `DialogueError` unless a turn was executed and showed the dialogue's images."""
        record = turn.record
        if not record.valid:
            raise DialogueError(Rejection.FAULTY, record.detail or "")
        if record.surplus:
            raise DialogueError(Rejection.FAULTY, "it contains several actions")
        shown = tuple((view.page.doc_id, view.page.page) for view in record.effect.views)
        same = shown == exchange.pages
        if exchange.action == "bbox":
            same = isinstance(record.effect, Magnified) and len(exchange.images) == 1
        if not same:
            names = ", ".join(f"{doc_id} p. {page}" for doc_id, page in shown) or "none"
            raise DialogueError(
                Rejection.OTHER_PAGES,
                f"after turn {record.turn}, {exchange.action}: {names}; the dialogue has "
                f"{', '.join(exchange.images) or 'none'}",
            )

    def _rewriter(self, page: Page) -> BoxRewriter:
        config: Any = self.resources.env_config
        view = page_view(self.resources.services.store.page(PageRef(*page)), config.display, 1)
        target = config.coords.frame.size(view.image.size, view.encoder_size)
        if self.frame is BoxFrame.NORM1000:
            return BoxRewriter((1000, 1000), target)
        return BoxRewriter(clamp_area(view.page_size, *_RELEASED_PIXELS), target)


class ReplayPlayer(EnvPlayer):
    """A `Player` that replays a dialogue for each question, in the environments of training.

    A search shows the dialogue's candidates: the retriever is not asked. All else is the
    environment's own: what a turn is, which page is selected, where a box lies, when it ends.

    Raises:
        UserError: the system has no such dialogues.
    """

    def __init__(
        self,
        resources: EnvResources,
        dialogues: Mapping[str, Dialogue],
        digest: str,
        frame: BoxFrame,
    ) -> None:
        super().__init__(resources, validate=False)
        if resources.system.name != "unidoc_rl":
            raise UserError(
                f"the dialogues are UniDoc-RL's, but the recipe's system is "
                f"{resources.system.name}: name a recipe of unidoc_rl"
            )
        self.dialogues = dialogues
        self.digest = digest
        self.frame = frame

    @property
    def identity(self) -> Mapping[str, Any]:
        """The dialogues, the unit of their boxes, and the environments."""
        return self.identity_of("dialogues", dialogues=self.digest, boxes=self.frame.value)

    def environment(self, sample: Sample, number: int) -> DocEnv:
        """Open the environment of one dialogue, with a retriever of its own."""
        dialogue = self.dialogues[sample.question_id]
        searches = [each.pages for each in dialogue.exchanges if each.action == "search"]
        services = self.resources.services
        services = replace(services, retriever=RetrieverService(DialogueRetriever(searches)))
        resources = self.resources
        return resources.system.open(
            resources.env_config, services, resources.prompt, validate=False
        )

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """Replay the dialogue of a sample.

        Raises:
            DialogueError: it does not play.
        """
        dialogue = self.dialogues[sample.question_id]
        _require(dialogue.pages, self.resources.services.store)
        replayed = Replay(dialogue, self.frame, self.resources)
        trajectory = await self.play_turns(sample, number, replayed.write)
        replayed.finish(trajectory)
        return trajectory


def _require(pages: frozenset[Page], store: DocumentStore) -> None:
    """Raise `DialogueError` if the store lacks a page."""
    for doc_id, number in sorted(pages):
        if doc_id not in store or not 1 <= number <= store.document(doc_id).num_pages:
            raise DialogueError(Rejection.NOT_STORED, f"{doc_id} p. {number}")
