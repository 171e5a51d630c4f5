"""Texts of pairs as rerankers take them, and the best passage of a page."""

from __future__ import annotations

from collections.abc import Sequence

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import Page
from docagent_rl.retrieval.encoders.local import Texts, fill_prompt
from docagent_rl.retrieval.encoders.spec import PLACE
from docagent_rl.retrieval.rerank.spec import Pair, RerankerSpec

LONGEST = 8192
"""Tokens of a pair at most, of models that take more."""


class PairTexts:
    """Makes the texts of pairs.

    `limit` is of tokens of a pair, `special` of those that the tokenizer adds; `named` is for messages.

    Raises:
        UserError: query and prompts leave no room for a passage.
    """

    def __init__(self, texts: Texts, spec: RerankerSpec, *, limit: int, special: int, named: str) -> None:
        self._texts, self._spec = texts, spec
        prompts = filter(None, (spec.query_prompt, spec.page_prompt))
        around = "".join(prompt.replace(PLACE, "") for prompt in prompts)
        # one token of grace: a piece can be another token at its edge
        left = min(limit, LONGEST) - special - texts.count(around) - spec.query_tokens - 1
        self.room = min(left, spec.page_tokens or left)
        if self.room < 8:
            raise UserError(
                f"{named}: of {limit} tokens {self.room} are left for the passage; lower query_tokens"
            )

    def query(self, query: str) -> str:
        """Return a query in its prompt."""
        plain = self._texts.cut(self._texts.plain(query), self._spec.query_tokens)
        return fill_prompt(self._spec.query_prompt, plain)

    def passages(self, page: Page) -> list[str]:
        """Return the passages of a page's text in their prompt, at least one."""
        overlap = min(self._spec.overlap, self.room // 2)
        pieces = self._texts.passages(self._texts.plain(page.text()), self.room, overlap)
        return [fill_prompt(self._spec.page_prompt, piece) for piece in pieces or [""]]

    def split(self, pairs: Sequence[Pair]) -> tuple[list[tuple[str, str]], list[int]]:
        """Return query and passage of each passage of each pair, and the number of its pair."""
        found, owners = [], []
        for number, (query, page) in enumerate(pairs):
            passages = self.passages(page)
            found += [(self.query(query), passage) for passage in passages]
            owners += [number] * len(passages)
        return found, owners


def best_scores(scores: Sequence[float], owners: Sequence[int]) -> list[float]:
    """Return the best score of each owner; owners are numbered from 0 and each has one at least."""
    best = [float("-inf")] * (owners[-1] + 1 if owners else 0)
    for score, owner in zip(scores, owners, strict=True):
        best[owner] = max(best[owner], score)
    return best
