"""Provenance of settings; the check of each shipped recipe verifies that its own is in order."""

import re
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks.provenance import Note, Printed, ProvenanceSource, read_provenance
from docagent_rl.checks.recipe_check import composed_recipe, filled_recipe
from docagent_rl.checks.recipe_list import ablation_names, recipe_names, recipe_summary
from tools.recipe_openings import opening_notes
from tools.recipe_provenance import provenance_problems

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
RECIPE = "vrag_rl_qwen2_5_vl_7b"
LR = "actor_rollout_ref.actor.optim.lr"


@pytest.fixture
def written(tmp_path):
    """Return a folder of recipes with provenance files of these texts; the recipe `mine` sets the
    rate.
    """
    (tmp_path / "provenance").mkdir()
    text = f"# run it\n# Mine.\ndefaults:\n  - {RECIPE}\n  - _self_\n"
    (tmp_path / "mine.yaml").write_text(
        text + "actor_rollout_ref: {actor: {optim: {lr: 3.0e-6}}}\n"
    )

    def write(**files: str):
        for name, text in files.items():
            (tmp_path / "provenance" / f"{name}.yaml").write_text(text)
        return tmp_path

    return write


def test_every_recipe_has_a_provenance_whose_words_are_known():
    for recipe in recipe_names(kind=None):
        found = read_provenance(recipe)
        assert found.printed, recipe
        assert not any(source.heading in recipe_summary(recipe) for source in ProvenanceSource), (
            recipe
        )
        words = re.findall(
            r"[\w/]+", " ".join(note.text for notes in found.notes.values() for note in notes)
        )
        named = {word for word in words if word.startswith(("mm_doc_r1/", "doc_v_star/"))}
        assert named <= set(ablation_names()), recipe


def nulls(node: yaml.Node, above: str = "") -> list[tuple[int, str]]:
    """Return the lines, from 0, and the dotted keys of the values of a recipe that are null."""
    found = []
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            found += nulls(value, f"{above}{key.value}.")
    elif isinstance(node, yaml.ScalarNode) and node.value == "null":
        found.append((node.start_mark.line, above.removesuffix(".")))
    return found


@pytest.mark.parametrize("recipe", recipe_names(kind=None))
def test_values_in_comments_beside_null_are_those_of_the_variant(recipe):
    text = (RECIPES / f"{recipe}.yaml").read_text()
    values = filled_recipe(composed_recipe(recipe))
    comments = [line.partition("#")[2] for line in text.splitlines()]
    for line, key in nulls(yaml.compose(text)):
        if not key.startswith("docagent.env.") or not comments[line]:
            continue
        value = OmegaConf.select(values, key)
        written = str(value).lower() if isinstance(value, bool) else str(value)
        assert re.search(rf"(?<![\w.]){re.escape(written)}(?![\w.])", comments[line]), (
            key,
            written,
        )


def test_lists_are_taken_over_and_added_to(written):
    base = f"printed:\n  {LR}: [1.0e-6, Table 5]\n  b: [1, Sec. 2]\nsilent:\n  c, d: why\n"
    root = written(
        base=base, mine=f"like: base\nprinted: {{{LR}: [2.0e-6, Eq. 1]}}\ndeparts: {{{LR}: more}}\n"
    )
    found = read_provenance("mine", root)
    assert found.printed == {LR: Printed(2e-6, "Eq. 1"), "b": Printed(1, "Sec. 2")}
    assert found.notes[ProvenanceSource.SILENT] == [Note(("c", "d"), "why")]
    assert found.keys(ProvenanceSource.DEPARTS, ProvenanceSource.SILENT) == {LR, "c", "d"}
    assert opening_notes("mine", root) == [
        f"# {ProvenanceSource.DEPARTS.heading}",
        "#   actor.optim.lr: more",
        f"# {ProvenanceSource.SILENT.heading}",
        "#   as in base",
    ]
    assert read_provenance("nobody", root).printed == {}
    shipped = read_provenance("mine", written(mine=f"like: {RECIPE}\n"))
    assert shipped.printed == read_provenance(RECIPE).printed


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("like: mine", "mine -> mine"),
        ("like: nobody", "nobody"),
        ("guessed: {a: b}", "guessed"),
        ("printed: {a: 3}", "mine.yaml"),
    ],
)
def test_what_is_no_provenance_is_refused(written, text, named):
    with pytest.raises(UserError, match=named):
        read_provenance("mine", written(mine=text))


@pytest.fixture(scope="module")
def config():
    return composed_recipe(RECIPE, [f"{LR}=3.0e-6"])


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (f"printed: {{{LR}: [3.0e-6, Table 5]}}", []),
        (f"printed: {{{LR}: [1.0e-6, Table 5]}}", [LR]),
        (f"printed: {{{LR}: [3.0e-6, Table 5]}}\ndeparts: {{{LR}: why}}", [LR]),
        (f"departs: {{{LR}: why}}", [LR]),
        (f"silent: {{{LR}s: why}}", [LR, f"{LR}s"]),
        ("silent: {data.nothing: why}", [LR, "data.nothing"]),
    ],
)
def test_settings_without_provenance_and_false_ones_are_named(written, config, text, keys):
    root = written(mine=text)
    found = {problem.split()[1] for problem in provenance_problems("mine", config, root)}
    # those of the environment have none here
    assert {key for key in found if not key.startswith("docagent.env.")} == set(keys)
    assert any(key.startswith("docagent.env.") for key in found)
