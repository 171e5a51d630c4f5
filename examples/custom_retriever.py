"""A custom retriever: fuzzy matching of queries and pages, which tolerates misread letters.

PYTHONPATH=examples python -m verl.trainer.main_ppo \
    --config-name vrag_rl_qwen2_5_vl_7b +profile=cpu \
    docagent.retriever.kind=custom_retriever:FuzzyRetriever +docagent.retriever.options.cutoff=55
"""

from rapidfuzz import fuzz, process, utils

from docagent_rl.retrieval import Hit, PageRef, UserError, check_queries


class FuzzyRetriever:
    """Ranks pages by how well the query matches some part of their text, from 0 to 100 (rapidfuzz).

    The store is given by the run, `index` is `docagent.retriever.index`, and all other arguments
    are `docagent.retriever.options`. Agents search from several threads at once, so searching must
    not change any state.
    """

    def __init__(self, store, index=None, *, cutoff=50.0):
        if not 0 <= cutoff < 100:
            raise UserError(
                f"docagent.retriever.options.cutoff={cutoff}: expected a number from 0 to below 100"
            )
        self.cutoff = cutoff
        self.refs = []
        self.texts = []
        self.rows = {}
        for doc_id in store.doc_ids():
            start = len(self.refs)
            for number in range(1, store.document(doc_id).num_pages + 1):
                self.refs.append(PageRef(doc_id, number))
                self.texts.append(utils.default_process(store.page(self.refs[-1]).text()))
            self.rows[doc_id] = range(start, len(self.refs))

    def search(self, queries, *, doc_id=None, top_k, exclude=()):
        check_queries(queries, top_k)
        if doc_id is not None and doc_id not in self.rows:
            raise UserError(f"there is no document {doc_id!r}")
        rows = range(len(self.refs)) if doc_id is None else self.rows[doc_id]
        left_out = set(exclude)
        kept = {
            row: self.texts[row]
            for row in rows
            if self.texts[row] and self.refs[row] not in left_out
        }
        return [self._best(utils.default_process(query), kept, top_k) for query in queries]

    def _best(self, query, texts, top_k):
        if not query:
            return []
        scored = process.extract(
            query, texts, scorer=fuzz.partial_token_set_ratio, score_cutoff=self.cutoff, limit=None
        )
        # rows are in page order, so pages with equal scores are too
        best = sorted(scored, key=lambda found: (-found[1], found[2]))[:top_k]
        return [Hit(self.refs[row], float(score)) for _, score, row in best]
