"""The table of EasyR1's keys: complete, and what it names is there."""

from collections.abc import Iterator

import pytest
from omegaconf import DictConfig, OmegaConf

from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.lab.easyr1.entry import TranslationKind
from docagent_rl.lab.easyr1.table import ALDEN, ALGORITHM, DATA, TRAINER, entries
from docagent_rl.lab.easyr1.translation import known_keys
from docagent_rl.lab.easyr1.worker_table import WORKER
from docagent_rl.training.settings.ledger import KeyKind, ledger


def test_every_key_of_easyr1_and_of_alden_s_copy_has_one_entry():
    known = known_keys()
    every = [*known.defaults, *known.own, *known.alden]
    assert len(every) == len(set(every))
    assert set(every) == set(entries())
    assert len(entries()) == len((*DATA, *ALGORITHM, *WORKER, *TRAINER, *ALDEN))


def test_the_keys_are_those_of_a_published_commit():
    known = known_keys()
    assert len(known.commit) == 40
    assert len(known.defaults) > 150
    assert known.defaults["worker.actor.clip_ratio_high"] == 0.3
    assert known.defaults["data.rollout_batch_size"] == 512


def test_what_is_not_carried_over_says_why():
    for entry in entries().values():
        if entry.kind in (TranslationKind.ELSEWHERE, TranslationKind.NONE):
            assert len(entry.note) > 10, entry.key
            assert entry.converter is None


def test_what_is_converted_says_how():
    for entry in entries().values():
        if entry.kind is TranslationKind.CONVERTED:
            assert entry.converter is not None
            assert entry.note, entry.key


@pytest.mark.parametrize("key", sorted({key for each in entries().values() for key in each.ours}))
def test_keys_that_get_a_value_are_read(key, names):
    """As the ledger of verl's keys has it, or as a recipe of this package has it."""
    # the ledger has a section of values, such as mixed_precision, as one key
    found = ledger().entry(key) or ledger().entry(key.rpartition(".")[0])
    if found is None:
        place = key if key in names else f"{key}."
        assert key in names or any(name.startswith(place) for name in names), key
    else:
        assert found.kind in (KeyKind.READ, KeyKind.SET), key


@pytest.fixture(scope="module")
def names() -> set[str]:
    """The keys of an ALDEN recipe, and its name."""
    recipe = "alden_hybrid_qwen2_5_vl_7b"
    return {recipe, *_keys(composed_recipe(recipe))}


def _keys(section: DictConfig, prefix: str = "") -> Iterator[str]:
    for key in section:
        yield f"{prefix}{key}"
        value = None if OmegaConf.is_missing(section, key) else section._get_node(key)
        if isinstance(value, DictConfig) and not value._is_none():
            yield from _keys(value, f"{prefix}{key}.")
