"""A custom retriever: fuzzy matching of queries and pages, which tolerates misread letters.

PYTHONPATH=examples python -m verl.trainer.main_ppo \
    --config-name vrag_rl_qwen2_5_vl_7b +profile=cpu \
    docagent.retriever.kind=custom_retriever:FuzzyRetriever +docagent.retriever.options.cutoff=55
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from rapidfuzz import fuzz, process, utils

from docagent_rl.envs import DocumentStore
from docagent_rl.retrieval import Hit, PageRef, UserError, check_queries


class FuzzyRetriever:
    """Ranks pages by how well the query matches some part of their text, from 0 to 100 (rapidfuzz).

    Args:
        store: the document store, which the run gives.
        index: `docagent.retriever.index`, which this retriever does not need.
        cutoff: the score that a page needs to be found. Like all further arguments, it is set by
            `docagent.retriever.options`.

    Raises:
        UserError: `cutoff` is out of range.
    """

    def __init__(
        self, store: DocumentStore, index: Path | None = None, *, cutoff: float = 50.0
    ) -> None:
        if not 0 <= cutoff < 100:
            raise UserError(
                f"docagent.retriever.options.cutoff={cutoff}: expected a number from 0 to below 100"
            )
        self._cutoff = cutoff
        # all pages of all documents are numbered through; the pages of a document are a range
        self._refs: list[PageRef] = []
        self._texts: list[str] = []
        self._numbers_of: dict[str, range] = {}
        for doc_id in store.doc_ids():
            first = len(self._refs)
            for page in range(1, store.document(doc_id).num_pages + 1):
                ref = PageRef(doc_id, page)
                self._refs.append(ref)
                self._texts.append(utils.default_process(store.page(ref).text()))
            self._numbers_of[doc_id] = range(first, len(self._refs))

    def search(
        self,
        queries: Sequence[str],
        *,
        doc_id: str | None = None,
        top_k: int,
        exclude: Collection[PageRef] = (),
    ) -> list[list[Hit]]:
        """Find the best pages of each query, best first.

        Agents search from several threads at once, so searching must not change any state.

        Args:
            queries: the queries.
            doc_id: the document to search; None for all.
            top_k: the most pages to return for a query.
            exclude: pages that must not be returned.

        Raises:
            UserError: there is no such document, or `top_k` is not positive.
        """
        check_queries(queries, top_k)
        if doc_id is None:
            numbers = range(len(self._refs))
        elif doc_id in self._numbers_of:
            numbers = self._numbers_of[doc_id]
        else:
            raise UserError(f"there is no document {doc_id!r}")

        excluded = set(exclude)
        texts = {
            number: self._texts[number]
            for number in numbers
            if self._texts[number] and self._refs[number] not in excluded
        }
        return [self._best(utils.default_process(query), texts, top_k) for query in queries]

    def _best(self, query: str, texts: Mapping[int, str], top_k: int) -> list[Hit]:
        """Return the best of some pages, whose texts are given by page number."""
        if not query:  # nothing is left of a query without letters and digits
            return []
        found = process.extract(
            query, texts, scorer=fuzz.partial_token_set_ratio, score_cutoff=self._cutoff, limit=None
        )
        # pages with equal scores stay in the order of documents and pages: a search that is
        # repeated must give the same hits
        ranked = sorted((-score, number) for _text, score, number in found)
        return [Hit(self._refs[number], float(-negative)) for negative, number in ranked[:top_k]]
