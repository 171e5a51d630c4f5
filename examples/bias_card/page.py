"""Write the bias card as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from bias_card.card import Measured
from bias_card.toy import Toy, ToyCritic

_INTRO = """# Bias card

*For whoever chooses or writes an estimator: in which direction each one pushes the policy, and how biased it is.*

An estimator turns rewards into advantages, and advantages decide which choices of the agent become likelier.
This page shows the **expected** effect of the estimators of `docagent_rl.advantages` on two choices, in a
problem so small that all groups of {size} trajectories can be enumerated. Every group is given to the
function that training uses, and its gradient is weighted by the group's probability, so nothing is sampled
and there are no error bars. `PYTHONPATH=examples python -m bias_card` writes this page; its options change
the numbers of the problem.

![Expected gradient over true gradient, for each estimator](bias_card.svg)

In short:

- Sum rewards over the turns of a trajectory before you compare trajectories; do not compare turn by turn.
- Division by the standard deviation of a small group biases the gradient towards one of the choices.
- With lam = 1 a wrong critic causes no bias.
- Broadcast a turn's advantage only with a baseline value from before the turn.

## The problem

```text
{drawing}
```

Going on is worth `c + b = {going:g}` on average, where `b = q b1 + (1-q) b0 = {b:g}` is the mean reward of
the second turn; stopping is worth `a = {a:g}`. So the policy should {should}, and pick {pick}. The true
gradient of the expected reward with respect to the logits of p and q is

```text
g1 = D (c + b - a)       = {g1:.4f}     D = p (1-p)     going on
g2 = p q (1-q) (b1 - b0) = {g2:.4f}                     picking well
```

A turn has two tokens: the choice, and the end of the turn, which gets the reward.

## How to read it

Compare `E1` and `E2`, the expected gradients, with g1 and g2. `var1` and `var2` are the variances of the
estimate from one group (the mean over its trajectories). The formulas give E1 and E2 for any numbers;
`u = 1 - 1/G = {u:g}`, and `->` marks the limit for large groups.

- **unbiased**: E = g.
- **scaled**: the gradient has the right direction, but another length. The learning rate can compensate for
  that; divide variances by the square of the scale before you compare them.
- **uneven**: each choice is pushed the right way, with its own step size. The optimum is right, but one
  choice is learned more slowly.
- **biased**: a choice is pushed even where both alternatives have the same return. A *toll* of 0.3 on going on
  means that the agent learns to stop wherever going on is worth up to 0.3 more; a negative toll is a bonus.
- **no signal**: the gradient is noise around zero.
"""

_OUTRO = """## Why

A baseline may be subtracted from the return of a choice if the baseline is known before the choice, or
depends only on other trajectories. Each verdict follows from what the baseline depends on.

- **Own reward in the mean.** A mean over G trajectories that includes the trajectory itself takes away 1/G of
  its reward, which gives the scale u. `loo` leaves the trajectory out.
- **Division by the standard deviation.** The divisor depends on the group, which includes the trajectory
  itself. In small groups this favours some choices even where they do not matter; in large groups it only
  weights questions by 1/sigma, where sigma^2 = p q (1-q) (b1-b0)^2 + D (c + b - a)^2 in this problem.
- **Normalising each turn index.** A trajectory is charged the mean reward of every turn that it reaches, and
  the policy chooses how many it reaches. That is a toll on going on: `b` if the mean is taken over survivors,
  `p b` if the mean is padded with zeros. `rtg_centered` and `fixed_horizon` sum the rewards first and centre afterwards.
  The package has only these two; the others are in `examples/bias_card/indexed.py`.
  *split* indexes all rewards but the last by turn, and compares the last reward over all trajectories: its
  toll is `c`, or `p c` if padded.
- **A turn that few reach.** `rtg_centered` compares the second turn among the trajectories that reached it, and
  gives no gradient if only one did, so it is uneven but not biased.
- **Similar trajectories (`spo`).** The baseline is a mean weighted by similarity, here chi = {chi:g} between
  a trajectory that stops and one that goes on, and 1 otherwise. This damps the choice that makes trajectories
  differ: `h = chi ((1-p) / (p + (1-p) chi) + p / (1-p + p chi))` for large groups, 0 at chi = 0.
- **A critic.** With lam = 1, values cancel or come before the choice, so any critic will do. With lam < 1, a
  value replaces future rewards and its error becomes bias; an exact critic causes none. A discount makes
  later rewards count less; its toll is `(1 - gamma) b`.
- **Broadcast from the end of the turn.** The value before the *last* token already includes the choice, so
  the return that it predicts is subtracted from the choice's credit, and an exact critic leaves no credit at
  all. With `anchor=start` the value comes before the choice.

In the formulas with critics, V1 and V2 are the values used for the two turns (`anchor`). The wrong critic has
values {critic}.

`spo_prefix` is not included: its baselines compare what trajectories did before a turn, and in this problem all
trajectories that reach the last turn did the same before it.

The card leaves out what follows the estimator: whitening, clipping and KL terms. Whitening subtracts one
number per batch and divides by another, which changes lengths but not directions as long as batches are large.
"""


def bias_page(card: Sequence[Measured], toy: Toy, group_size: int, similarity: float) -> str:
    """Return the page, with one table for each family.

    Args:
        card: the measurements.
        toy: the problem in which they were made.
        group_size: the number of trajectories of a group.
        similarity: SPO's cosine between stopping and going on.
    """
    first, second = toy.gradient.tolist()
    intro = _INTRO.format(
        size=group_size,
        drawing=_drawing(toy),
        a=toy.stop_reward,
        b=_plain(toy.second_mean),
        going=_plain(toy.go_on_reward + toy.second_mean),
        should="go on more often" if first > 0 else "stop more often",
        pick="well" if second > 0 else "badly",
        g1=first,
        g2=second,
        u=_plain(1 - 1 / group_size),
    )
    parts = [intro, f"## The card, G = {group_size}\n"]
    for family, members in groupby(card, key=lambda each: each.row.family):
        parts.append(f"### {family}\n")
        parts.append(_table(list(members)))
    critic = ToyCritic()
    values = (
        f"{critic.start:g} at the start, {critic.went_on:g} and {critic.stopped:g} once it went on "
        "or "
        f"stopped, {critic.second:g} before the\nsecond turn, {critic.picked_good:g} and "
        f"{critic.picked_bad:g} once it picked well or badly"
    )
    return "\n".join([*parts, _OUTRO.format(chi=similarity, critic=values)])


def _drawing(toy: Toy) -> str:
    """Draw the toy as a tree of text."""
    go_on = f"p = {toy.go_on:g}"
    first = f"--> go on, reward c = {toy.go_on_reward:g}  --"
    stop = f"1-p = {_plain(1 - toy.go_on):g}"
    good = f"q = {toy.good:g}"
    bad = f"1-q = {_plain(1 - toy.good):g}"
    wide = max(len(go_on), len(stop)) + 1
    deep = max(len(good), len(bad)) + 1
    left = " " * len("question --")
    middle = " " * (wide + len(first))
    inner = " " * (len(left) + 4 + wide + len(first))
    return "\n".join(
        [
            f"{left}+-- {stop:<{wide}}--> stop, reward a = {toy.stop_reward:g}",
            "question --+",
            f"{left}|   {middle}+-- {good:<{deep}}--> pick well, reward b1 = {toy.good_reward:g}",
            f"{left}+-- {go_on:<{wide}}{first}+",
            f"{inner}+-- {bad:<{deep}}--> pick badly, reward b0 = {toy.bad_reward:g}",
        ]
    )


def _table(card: Sequence[Measured]) -> str:
    lines = [
        "| estimator | E1 | E1 in general | E2 | E2 in general | var1 | var2 | verdict |",
        "|---|---:|---|---:|---|---:|---:|---|",
    ]
    for each in card:
        row = each.row
        first, second = each.expected
        numbers = [_number(x) for x in (first, second, *each.variance)]
        cells = [
            row.name,
            numbers[0],
            f"`{row.case.first}`" if row.case.first else "",
            numbers[1],
            f"`{row.case.second}`" if row.case.second else "",
            *numbers[2:],
            f"**{each.verdict}**{each.explanation.removeprefix(each.verdict)}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _number(x: float) -> str:
    """Format a number with four digits, never as -0."""
    return f"{round(x, 4) + 0.0:.4f}"


def _plain(x: float) -> float:
    """Round away the digits that binary fractions add."""
    return round(x, 10)
