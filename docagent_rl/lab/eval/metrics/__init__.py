"""Official metrics of the benchmarks, quirks included: pure functions of answers, pages and records.

`docs/metrics.md` has where each comes from and what it does that others would not. Scores are in `[0, 1]`;
`None` is a number without meaning for a question, which means leave out. Nothing raises on a model's text.
"""

from docagent_rl.lab.eval.metrics.agreement import agreement
from docagent_rl.lab.eval.metrics.alden import alden_table, parse_label_judge
from docagent_rl.lab.eval.metrics.doc_v_star import tool_pages, tool_table
from docagent_rl.lab.eval.metrics.dude import dude_anls, dude_prediction
from docagent_rl.lab.eval.metrics.judged import is_judged, judged_accuracy, judged_answer, parse_bool_judge
from docagent_rl.lab.eval.metrics.longdocurl import (
    longdocurl_accuracy,
    longdocurl_breakdown,
    longdocurl_inline,
    longdocurl_parse,
    longdocurl_score,
)
from docagent_rl.lab.eval.metrics.mmlongbench_doc import (
    mmlongbench_acc_f1,
    mmlongbench_breakdown,
    mmlongbench_parse,
    mmlongbench_score,
)
from docagent_rl.lab.eval.metrics.mp_docvqa import anls, mpdocvqa_accuracy, page_accuracy
from docagent_rl.lab.eval.metrics.pages import page_f1, page_precision, page_recall
from docagent_rl.lab.eval.metrics.retrieval import hit_at_k, mrr_at_k, ndcg, ndcg_at_k, recall_at_k
from docagent_rl.lab.eval.metrics.sessions import session_table
from docagent_rl.lab.eval.metrics.slidevqa import slidevqa_em_f1, slidevqa_evidence, slidevqa_joint
from docagent_rl.lab.eval.metrics.uda import uda_answer, uda_f1
from docagent_rl.lab.eval.metrics.vidoseek import parse_score_judge, retrieval_table
from docagent_rl.rewards.literals import safe_literal

__all__ = [
    "agreement",
    "alden_table",
    "anls",
    "dude_anls",
    "dude_prediction",
    "hit_at_k",
    "is_judged",
    "judged_accuracy",
    "judged_answer",
    "longdocurl_accuracy",
    "longdocurl_breakdown",
    "longdocurl_inline",
    "longdocurl_parse",
    "longdocurl_score",
    "mmlongbench_acc_f1",
    "mmlongbench_breakdown",
    "mmlongbench_parse",
    "mmlongbench_score",
    "mpdocvqa_accuracy",
    "mrr_at_k",
    "ndcg",
    "ndcg_at_k",
    "page_accuracy",
    "page_f1",
    "page_precision",
    "page_recall",
    "parse_bool_judge",
    "parse_label_judge",
    "parse_score_judge",
    "recall_at_k",
    "retrieval_table",
    "safe_literal",
    "session_table",
    "slidevqa_em_f1",
    "slidevqa_evidence",
    "slidevqa_joint",
    "tool_pages",
    "tool_table",
    "uda_answer",
    "uda_f1",
]
