"""Write the results of the anchoring demonstration as a page of Markdown."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

from anchoring.compare import Spread, reach, spread_at, spread_of
from anchoring.results import Anchoring, Arm
from docagent_rl.base.errors import UserError

STOPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)
"""Values of the response KL at which the table compares runs, as far as all runs reach them."""

NAMES = {Arm.NONE: "none", Arm.K3: "sampled (k3)", Arm.EXACT: "exact"}
COLUMNS = {
    "distance": ("drift", ".3f"),
    "cosine": ("cosine", ".3f"),
    "visual_kl": ("visual KL", ".4f"),
    "visual_k3": ("k3 there", ".4f"),
    "reward": ("reward", ".2f"),
    "update": ("updates", ".1f"),
}
"""Fields of `Point` with their headings and formats."""

WIDTH = 110


def stops(found: Anchoring) -> list[float]:
    """Return the values of response KL at which all runs can be compared.

    They are the values of `STOPS` that every run reaches, and the furthest value that all reach,
    cut to two digits.

    Raises:
        UserError: a run does not even reach the first value.
    """
    furthest = math.floor(100 * reach(found.runs)) / 100
    if furthest < STOPS[0]:
        raise UserError(
            f"a run's responses have moved by only {reach(found.runs):.4f} nats, too little to "
            "compare: "
            "use more updates or a smaller coefficient"
        )
    return sorted({furthest, *(kl for kl in STOPS if kl <= furthest)})


def arms(found: Anchoring) -> list[Arm]:
    """Return the arms that were run, in the order of their declaration."""
    return [arm for arm in Arm if any(run.arm is arm for run in found.runs)]


def anchoring_page(found: Anchoring, command: str) -> str:
    """Return text, picture and tables as Markdown; the same results give the same bytes.

    Args:
        found: the demonstration.
        command: the command that the page shows.

    Raises:
        UserError: the runs have moved too little to be compared.
    """
    seeds = len({run.seed for run in found.runs})
    blocks = [
        "# What the observation KL preserves",
        "*For whoever trains on page images: what ALDEN's KL on visual tokens preserves, and what it "
        "costs.*",
        f"```bash\n{command}\n```",
        _text(_about(found)),
        _text(_finding(found)),
        "![Drift of visual hidden states over the KL of responses](anchoring.svg)",
        _text(f"""Lines are means over {seeds} seed{"s" if seeds > 1 else ""}; bands reach from the lowest to
            the highest. The tables give means, and for the drift also the standard deviation over the seeds."""),
        "## At the same response KL",
        _equal(found),
        _legend(),
        f"## After {found.settings.updates} updates",
        _final(found),
        "## What is run",
        _method(found),
    ]
    return "\n\n".join(blocks) + "\n"


def _about(found: Anchoring) -> str:
    return f"""ALDEN (arXiv 2510.25668) has two KL terms in its loss. One keeps the policy close to the
        reference on the tokens that the policy samples, as usual. The other, the observation KL, does so on
        the tokens that the environment shows, mostly page images. Rewards depend only on what an agent
        writes, so without the second term nothing in the loss preserves how well it reads. This demonstration
        shows the effect of that term. A Qwen2.5-VL of a million parameters reads the digit on a page
        ({100 * found.right:.0f} % right in sampled trajectories). It is then rewarded for large digits,
        whatever the page shows, so that it can gain by ignoring the page. All runs start from the same
        weights and get the same questions in the same order; their losses differ only in the observation
        KL."""


def _finding(found: Anchoring) -> str:
    first = stops(found)[0]
    at = stops(found)[-1]

    def mean(arm: Arm, name: str) -> float:
        return spread_at(found.runs, arm, at, name).mean

    early = [
        f"{spread_at(found.runs, arm, first, 'distance').mean:.2f} ({arm.value})"
        for arm in arms(found)
    ]

    base = mean(Arm.NONE, "distance")
    base_kl = mean(Arm.NONE, "visual_kl")
    held = [
        f"""with the {NAMES[arm]} term, by {mean(arm, "distance"):.2f} and {mean(arm, "visual_kl"):.3f} nats
        ({mean(arm, "distance") / base:.0%} of the drift and {mean(arm, "visual_kl") / base_kl:.0%} of the KL
        without it)"""
        for arm in arms(found)
        if arm is not Arm.NONE
    ]
    return f"""A run with the term also changes its responses more slowly, and a run that learns less drifts
        less. So runs are compared where their *responses* have moved equally far. When responses have moved by
        {at:g} nats per token, then without the observation KL the hidden states of the images have drifted by
        {base:.2f} of their length, and the model's predictions from them by {base_kl:.3f} nats;
        {"; ".join(held)}. The beginning looks different: at {first:g} nats the drifts are {", ".join(early)},
        since the first steps of AdamW have the same size whatever the loss. The columns *reward* and
        *updates* show what the term costs."""


def _equal(found: Anchoring) -> str:
    rows = []
    for kl in stops(found):
        for arm in arms(found):
            spreads = {name: spread_at(found.runs, arm, kl, name) for name in COLUMNS}
            rows.append([f"{kl:g}", NAMES[arm], *_cells(spreads)])
    return _table(
        ["response KL", "observation KL", *(title for title, _ in COLUMNS.values())], rows
    )


def _final(found: Anchoring) -> str:
    names = [name for name in COLUMNS if name != "update"]
    rows = []
    for arm in arms(found):
        last = [run.points[-1] for run in found.runs if run.arm is arm]
        cells = _cells({name: spread_of(last, name) for name in names})
        rows.append([f"{spread_of(last, 'response_kl').mean:.3f}", NAMES[arm], *cells])
    return _table(["response KL", "observation KL", *(COLUMNS[name][0] for name in names)], rows)


def _cells(spreads: Mapping[str, Spread]) -> list[str]:
    cells = []
    for name, spread in spreads.items():
        form = COLUMNS[name][1]
        deviation = (
            f" ± {spread.deviation:{form}}" if name == "distance" and spread.deviation else ""
        )
        cells.append(f"{spread.mean:{form}}{deviation}")
    return cells


def _legend() -> str:
    return _list(
        """**response KL**: exact KL(policy || reference) in nats per token, over the tokens that the
        reference sampled in its own trajectories about pages that no run trains on. The numbers of a run are
        those at the point where it first reaches this value, interpolated between two updates.""",
        """**drift**, **cosine**: final hidden states at the image placeholders of these trajectories, compared
        with the reference's: relative L2 distance and cosine similarity.""",
        """**visual KL**: exact KL, in nats, of the distributions that the model's head computes from these
        hidden states. **k3 there**: the sampled estimator at the placeholders, which looks at one entry of
        the vocabulary.""",
        """**reward**, **updates**: mean reward of the trajectories that the policy plays at this point, and
        how many updates it took to get there.""",
    )


def _method(found: Anchoring) -> str:
    s = found.settings
    return _list(
        """**Trajectories**: those of [the learning demonstration](learning.md) with one digit per page, sampled
        from the current policy. The agent searches for a word, is shown a page of 16 visual tokens, and
        answers. Rows come from the ledger that training uses.""",
        f"""**Reward**: the digit of the answer, divided by 9. Advantages are rewards minus their mean, divided
        by their standard deviation, over the {s.trajectories} trajectories of an update. An update is one
        step of AdamW on all weights with learning rate {s.learning_rate:g}.""",
        f"""**Loss**: all runs use verl's `ppo_loss` with its own KL over sampled tokens (`low_var_kl`,
        {s.beta_gen:g}). Runs with the term wrap it in
        `docagent_rl.training.workers.observation_kl.ObservationKlLoss`, with
        `docagent.kl.observation: {{coef: {s.coef:g}, scope: all, at: label}}` and `type` k3 or exact. The
        coefficient fits this task and its learning rate (`--coef` changes it); the paper's is 0.01 at a
        learning rate of 1e-6.""",
        """**Limits**: at the reference the term has no gradient, so it does not act on the first update of a
        run. A model of this size shows that the term works as intended, not how much a large model gains
        from it.""",
    )


def _text(text: str, width: int = WIDTH) -> str:
    return textwrap.fill(
        " ".join(text.split()), width, break_long_words=False, break_on_hyphens=False
    )


def _list(*items: str) -> str:
    return "\n".join(
        textwrap.indent(_text(item, WIDTH - 2), "  ").replace("  ", "- ", 1) for item in items
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rules = ["---:" if number != 1 else "---" for number in range(len(heads))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, rules, *rows])
