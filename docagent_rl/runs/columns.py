"""The tables of a run and their columns: names, types and meanings.

docs/runs_as_data.md lists them; `python -m tools.run_columns` writes that list from here.
"""

from enum import StrEnum
from typing import NamedTuple

import pyarrow as pa

_TEXT = pa.string()
_WHOLE = pa.int32()
_NUMBER = pa.float64()
_FLAG = pa.bool_()
_TEXTS = pa.list_(pa.string())
_NUMBERS = pa.map_(pa.string(), pa.float64())
# per token, as the trainer has them
_IDS = pa.list_(pa.int32())
_FLOATS = pa.list_(pa.float32())


class RunTable(StrEnum):
    """A table of a run."""

    TRAJECTORIES = "trajectories"
    """A row per trajectory."""
    TURNS = "turns"
    """A row per turn."""
    TERMS = "terms"
    """A row per reward term of a trajectory or of a turn."""
    TOKENS = "tokens"
    """A row per turn, with lists over its sampled tokens."""
    METRICS = "metrics"
    """A row per number of a step."""
    CREDIT = "credit"
    """A row per training row, with lists over its sampled tokens."""
    SCORES = "scores"
    """A row per number with which an evaluation was scored."""


class Column(NamedTuple):
    """A column of a table."""

    name: str
    type: pa.DataType
    meaning: str


_RUN = (
    Column("run", _TEXT, "name of the run's folder"),
    Column("part", _TEXT, "condition of a probe, such as `blank`; empty in other runs"),
)
_STEP = (
    *_RUN,
    Column("split", _TEXT, "`train` or `val`"),
    Column("step", _WHOLE, "step of the trainer; 0 in runs without steps"),
)
_KEY = (
    *_STEP,
    Column("uid", _TEXT, "group: trajectories of one sample in one step"),
    Column("number", _WHOLE, "number of the trajectory in its group, from 0"),
)
_OF_TURN = (*_KEY, Column("turn", _WHOLE, "number of the turn in its trajectory, from 1"))

_TRAJECTORIES = (
    *_KEY,
    Column("question_id", _TEXT, "id of the question"),
    Column("dataset", _TEXT, "data set of the question"),
    Column("doc_id", _TEXT, "document of the question"),
    Column("question", _TEXT, "the question"),
    Column("gold", _TEXTS, "its right answers"),
    Column("gold_pages", _TEXTS, "its evidence pages, as `doc#page`"),
    Column("evidence_kind", _TEXT, "kinds of its evidence, such as `Chart`; empty if unknown"),
    Column("system", _TEXT, "system that was played"),
    Column("status", _TEXT, "`finished`, `unfinished` or `masked`"),
    Column("end", _TEXT, "what ended it, such as `answered`, or the reason of the mask"),
    Column("error", _TEXT, "message of the failure that masked it"),
    Column("attempts", _WHOLE, "how often it was started"),
    Column("answer", _TEXT, "the last answer; null without one"),
    Column("outcome", _TEXT, "`right`, `wrong` or `unjudged`; null if the system has none"),
    Column("score", _NUMBER, "how right the answer is, 0 to 1; null if unjudged"),
    Column("stage", _TEXT, "last stage of the evidence funnel; null if the evidence is unknown"),
    Column("branch", _TEXT, "how the evidence was read: `zoomed`, `read_whole`, `as_text`"),
    Column("reach", _FLAG, "whether the question itself, as query, finds all evidence"),
    Column("guessed", _FLAG, "right although the evidence was not shown"),
    Column("well_formed", _FLAG, "whether the format was correct throughout"),
    Column("reward", _NUMBER, "reward of the trajectory"),
    Column("advantage", _NUMBER, "mean over its sampled tokens; null without `credit`"),
    Column("turns", _WHOLE, "number of turns"),
    Column("invalid", _WHOLE, "number of turns that were not valid"),
    Column("truncated", _FLAG, "a limit of tokens cut it off"),
    Column("prompt_tokens", _WHOLE, "tokens of the prompt"),
    Column("response_tokens", _WHOLE, "tokens after the prompt: sampled ones and observations"),
    Column("images", _WHOLE, "images that were shown"),
    Column("seconds", _NUMBER, "wall time of its turns"),
    Column("drift", _NUMBER, "mean distance of log-probs between rollout server and trainer"),
    Column("metrics", _NUMBERS, "the environment's own numbers by name"),
    Column("dropped_by", _TEXT, "filter that dropped it; collections only"),
)
_TURNS = (
    *_OF_TURN,
    Column("row", _WHOLE, "training row of its trajectory, from 0"),
    Column("text", _TEXT, "what the policy wrote"),
    Column("stop", _TEXT, "what ended the text"),
    Column("action", _TEXT, "kind of the action; empty if there was none"),
    Column("arguments", _TEXT, "arguments of the action, JSON"),
    Column("valid", _FLAG, "well formed, and possible to execute"),
    Column("reason", _TEXT, "why it was not valid"),
    Column("executed", _FLAG, "whether the action was executed"),
    Column("surplus", _WHOLE, "number of further actions, which were not executed"),
    Column("effect", _TEXT, "kind of the effect; empty for none"),
    Column("found", _TEXTS, "pages that its searches returned, as `doc#page`"),
    Column("shown", _TEXTS, "pages that it showed, whole or in part, as `doc#page`"),
    Column("searches", _WHOLE, "number of searches"),
    Column("reward", _NUMBER, "reward of the turn"),
    Column("sampled_tokens", _WHOLE, "number of sampled tokens"),
    Column("observation_tokens", _WHOLE, "tokens of the observation in the context"),
    Column("images", _WHOLE, "images in the observation"),
    Column("dropped", _FLAG, "the observation did not fit and was left out"),
    Column("seconds", _NUMBERS, "wall time by phase: `generate`, `step`, `encode`"),
)
_TERMS = (
    *_KEY,
    Column("turn", _WHOLE, "number of the turn, from 1; null for the whole trajectory"),
    Column("term", _TEXT, "name of the reward term"),
    Column(
        "value",
        _NUMBER,
        "its value, before the weight. The row without a turn has the value of the whole "
        "trajectory, so do not add it to those of turns",
    ),
    Column(
        "weight",
        _NUMBER,
        "its weight; null if the run's configuration does not determine it, or its system is not "
        "one of this package: to read a run does not import code that the run names",
    ),
    Column("first", _WHOLE, "first sampled token of a term on tokens, from 0; null for others"),
    Column("last", _WHOLE, "end of these tokens, exclusive"),
)
_TOKENS = (
    *_OF_TURN,
    Column("row", _WHOLE, "training row of its trajectory, from 0"),
    Column("token_ids", _IDS, "sampled ids"),
    Column("log_probs", _FLOATS, "log-probs of the rollout server"),
    Column("trainer_log_probs", _FLOATS, "log-probs of the trainer; null without a trainer"),
)
_METRICS = (
    *_STEP,
    Column("metric", _TEXT, "name of the number (docs/metrics.md)"),
    Column("value", _NUMBER, "its value"),
)
_CREDIT = (
    *_KEY,
    Column("row", _WHOLE, "training row of its trajectory, from 0"),
    Column("estimator", _TEXT, "estimator of the advantages"),
    Column("advantages", _FLOATS, "advantage of each sampled token of the row"),
    Column("returns", _FLOATS, "return of each"),
    Column("values", _FLOATS, "critic's value of each; null without a critic"),
    Column("entropy", _FLOATS, "entropy at each"),
    Column("kl", _FLOATS, "divergence from the reference at each"),
    Column("similarities", _FLOATS, "similarity to each trajectory of the group, if weighed by it"),
)
_SCORES = (
    *_RUN,
    Column("question_id", _TEXT, "id of the question"),
    Column("number", _WHOLE, "number of the trajectory in its group, from 0"),
    Column("dataset", _TEXT, "data set, whose protocol scored it"),
    Column("score", _TEXT, "name of the number (docs/report.md)"),
    Column("value", _NUMBER, "its value; null if it is not defined"),
)

COLUMNS = {
    RunTable.TRAJECTORIES: _TRAJECTORIES,
    RunTable.TURNS: _TURNS,
    RunTable.TERMS: _TERMS,
    RunTable.TOKENS: _TOKENS,
    RunTable.METRICS: _METRICS,
    RunTable.CREDIT: _CREDIT,
    RunTable.SCORES: _SCORES,
}
"""The columns of each table, in order."""


def schema_of(table: RunTable) -> pa.Schema:
    """Return the Arrow schema of a table; the metadata of a field has its meaning."""
    return pa.schema(
        pa.field(name, kind, metadata={"meaning": meaning})
        for name, kind, meaning in COLUMNS[table]
    )
