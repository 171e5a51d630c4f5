"""Write docs/memory.md and docs/variants.md from the recipes: `python -m tools.recipe_pages`."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from docagent_rl.base.section import VariantSection
from docagent_rl.checks.provenance import ProvenanceSource, read_provenance
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.systems import SYSTEMS, get_system
from tools.memory_page import memory_page
from tools.recipe_provenance import flat

DOCS = Path(__file__).resolve().parents[1] / "docs"
VARIANTS = ("paper", "released")
_VARIANTS = """\
# Variants

*For whoever compares a paper with its released code: which settings the two variants change, and what each reward
pays for.*

`docagent.env.variant` chooses between `paper`, the system as published, and `released`, the published code as
it was meant to work. The tables list the keys of `docagent.env` that differ. A key that a recipe sets
keeps its value under both; `null` takes the variant's. A key that a recipe does not list takes a `+` on the
command line, e.g. `+docagent.env.polar_exact=true`. "(ours)" marks a value of `paper` on which the paper is
silent or differs; `docagent-rl recipes show` lists these, and also those that both variants share.
Written by `python -m tools.recipe_pages`.
"""
_GATE = """\
## Answers behind a closed gate

With `reward.gate` (VRAG-RL and UniDoc-RL, `released`) the reward is 0 if the format term is 0, and
training does not ask the judge about such an answer: it is *unjudged*, which is not wrong. Its term
`reward/outcome` is 0, as published. The trajectory's outcome is `unjudged`, also in the funnel, the viewer,
filters and `rescore`; `docagent/outcome/accuracy_of_judged` covers the other answers, and
`docagent/outcome/unjudged` is the share of unjudged ones. A missing or blank answer is wrong.

Validation and `docagent-rl eval` ask the judge about every answer, whatever the form; the reward stays 0
behind the gate. `reward/outcome` is then the validation score of the released code: the judge's score for
UniDoc-RL, and for VRAG-RL 0 without a search. `judge_score` is the judge's score for both. To have the
unjudged answers of a training run judged, run:

```bash
docagent-rl rescore RUN --out DIR -- docagent.env.reward.gate=false
```

"""
_PADDING = """\
## More turns, more reward

Additional turns that repeat calls, find nothing, open wrong pages or are malformed do not raise the reward of
a trajectory, in any system (`tests/players/test_padding.py`), with these exceptions:

"""


_UNEARNED = """\
## Rewarded without knowing

    python -m tests.players.unearned

This is the highest reward of an agent that has read nothing and does not know the answer. It comes from a search
over plans of moves, each the same for all questions about four synthetic reports of 12 pages, and is compared with
an honest agent that searches for the evidence, reads it and answers right. If an agent that knows evidence and
answer can earn more than the honest one, that is said, too. `docagent-rl recipes show` prints this; a model that
learns such a plan shows up in `docagent/funnel/unsought_reward` and in the funnel.

"""


def main() -> None:
    """Write both pages."""
    for name, page in (("memory", memory_page()), ("variants", variant_page())):
        (DOCS / f"{name}.md").write_text(page, encoding="utf-8")


def variant_page() -> str:
    """Return the page with a table of differences for every system that has both variants."""
    parts = [_VARIANTS]
    single = []
    for name in sorted(SYSTEMS):
        cells = [[cell.replace("|", "\\|") for cell in row] for row in differences(name)]
        if not cells:
            single.append(f"`{name}`")
            continue
        rows = "".join(f"| {' | '.join(row)} |\n" for row in cells)
        parts.append(
            f"## {name}\n\n| key | paper | released | what it is |\n|---|---|---|---|\n{rows}"
        )
    parts.append(
        f"No code was released for {' and '.join(single)}, which only have the variant `paper`.\n"
    )
    unearned = [
        f"- **{name}, `{variant}`.** {found}\n"
        for name in sorted(SYSTEMS)
        for variant, found in get_system(name).unearned.items()
    ]
    padding = [
        f"- **{name}, `{variant}`.** {text}\n"
        for name in sorted(SYSTEMS)
        for variant, text in get_system(name).padding.items()
    ]
    return "\n".join([*parts, _GATE + _PADDING + "".join(padding), _UNEARNED + "".join(unearned)])


def differences(name: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield the differences between the variants of a system; none if it does not have both.

    Yields:
        the key below `docagent.env`, its value in the paper, its value in the released code, and
        its meaning.
    """
    system = get_system(name)
    config_type = system.config_type
    if not issubclass(config_type, VariantSection) or set(VARIANTS) - set(config_type.variants):
        return
    defaults = config_type.variants
    prompts = [system.default_prompt(config_type.for_variant(variant)) for variant in VARIANTS]
    if len(set(prompts)) > 1:
        yield "(prompt)", f"`{prompts[0]}`", f"`{prompts[1]}`", "The package's prompt."
    paper, released = (dict(flat(defaults[variant])) for variant in VARIANTS)
    recipe = next(recipe for recipe in recipe_names() if recipe.startswith(name))
    named = read_provenance(recipe).keys(
        ProvenanceSource.DEPARTS, ProvenanceSource.RELEASE, ProvenanceSource.SILENT
    )
    ours = tuple(f"{key}." for key in named)
    for key in dict.fromkeys([*paper, *released]):
        if paper.get(key) != released.get(key):
            yield (
                f"`{key}`",
                "(ours) " * f"docagent.env.{key}.".startswith(ours) + _value(paper, key),
                _value(released, key),
                _explanation(config_type, key.split(".")),
            )


def _value(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    if isinstance(value, Enum):
        doc = _docstrings(type(value)).get(value.name, "")
        return f"`{value.value}`: {doc}" if doc else f"`{value.value}`"
    return (
        "" if key not in values else f"`{str(value).lower() if isinstance(value, bool) else value}`"
    )


def _explanation(config_type: type[BaseModel], path: list[str]) -> str:
    """Return the docstring of a field, or of the enumeration to which its values belong."""
    kind = config_type.model_fields[path[0]].annotation
    if len(path) > 1 and isinstance(kind, type) and issubclass(kind, BaseModel):
        return _explanation(kind, path[1:])
    own = _docstrings(config_type).get(path[0], "")
    if not own and isinstance(kind, type) and issubclass(kind, Enum):
        return " ".join((kind.__doc__ or "").split())
    return own


def _docstrings(kind: type) -> dict[str, str]:
    """Return the docstrings of the attributes of a class and its bases, each joined to one line."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("docagent_rl."):
            continue
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        body = definition.body if isinstance(definition, ast.ClassDef) else []
        for statement, after in itertools.pairwise(body):
            if not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)):
                continue
            if isinstance(statement, ast.AnnAssign):
                target = statement.target
            elif isinstance(statement, ast.Assign):
                target = statement.targets[0]
            else:
                continue
            if isinstance(target, ast.Name):
                found[target.id] = " ".join(str(after.value.value).split())
    return found


if __name__ == "__main__":
    main()
