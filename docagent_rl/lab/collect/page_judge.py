"""Whether pages bear an answer out: a model that sees them says so."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.endpoints.usage import image_part
from docagent_rl.rewards.judge_client import parse_verdict, spells_verdict

if TYPE_CHECKING:
    from docagent_rl.endpoints.remote_model import RemoteModel

EVIDENCE_PROMPT = PromptSpec(
    required=frozenset({"user"}),
    optional=frozenset({"system"}),
    variables=frozenset({"question", "answer", "pages"}),
    shown=frozenset({"question", "answer"}),
)
_MOST_PIXELS = 1024 * 1024
"""Of a page; about what Doc-V* shows for reading (1024 x 768)."""
_JPEG_QUALITY = 90


class EvidenceJudge(Protocol):
    """Says whether pages support an answer."""

    async def supports(self, question: str, answer: str, pages: Sequence[PageRef]) -> bool:
        """Whether what the pages show is enough for the answer.

        Raises:
            BudgetError: what may be spent is spent.
            InfrastructureError: the judge failed.
        """
        ...


@dataclass(frozen=True, slots=True)
class PageJudge:
    """An `EvidenceJudge` behind an endpoint that takes images.

    Args:
        model: is asked; cached and budgeted as it says.
        store: where page images come from.
        prompt: of `EVIDENCE_PROMPT`.
    """

    model: RemoteModel
    store: DocumentStore
    prompt: PromptTemplate

    @classmethod
    def of(cls, model: RemoteModel, store: DocumentStore) -> PageJudge:
        """With the prompt of the package."""
        return cls(model, store, load_prompt("evidence", EVIDENCE_PROMPT))

    async def supports(self, question: str, answer: str, pages: Sequence[PageRef]) -> bool:
        """See `EvidenceJudge`; without pages nothing is supported."""
        if not pages:
            return False
        messages = await asyncio.to_thread(self._messages, question, answer, pages)
        echoes = spells_verdict(question, (), answer)
        reply = await self.model.ask(messages, lambda text: parse_verdict(text, echoes=echoes))
        return parse_verdict(reply.text, echoes=echoes)

    def _messages(self, question: str, answer: str, pages: Sequence[PageRef]) -> list[dict[str, Any]]:
        values = {"question": question, "answer": answer, "pages": [str(page.page) for page in pages]}
        asked: list[dict[str, Any]] = [{"type": "text", "text": self.prompt.render("user", **values)}]
        asked += [image_part(self._jpeg(page)) for page in pages]
        system = [{"role": "system", "content": self.prompt.render("system", **values)}]
        return [*(system if "system" in self.prompt else []), {"role": "user", "content": asked}]

    def _jpeg(self, page: PageRef) -> bytes:
        image = self.store.decode(self.store.page(page).image_hash)
        scale = min(1.0, (_MOST_PIXELS / (image.width * image.height)) ** 0.5)
        if scale < 1:
            image = image.resize((max(1, int(image.width * scale)), max(1, int(image.height * scale))))
        file = io.BytesIO()
        image.convert("RGB").save(file, format="JPEG", quality=_JPEG_QUALITY)
        return file.getvalue()
