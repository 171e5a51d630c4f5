"""The page of verl's switches has every key, as the ledgers describe it."""

import re

from docagent_rl.training.settings.keys import reference, sft_reference
from docagent_rl.training.settings.ledger import RL_FILE, SFT_FILE, KeyKind, leaves, ledger
from tools.verl_keys import BEGIN, END, PAGE, with_tables


def test_the_page_is_that_of_the_ledgers():
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_tables(page), "run python -m tools.verl_keys"


def test_what_is_written_by_hand_stays():
    page = with_tables(f"# Mine\n\nabove\n{BEGIN}\nold\n{END}\nbelow\n")
    assert page.startswith(f"# Mine\n\nabove\n{BEGIN}\n")
    assert page.endswith(f"{END}\nbelow\n")
    assert "\nold\n" not in page
    assert with_tables(page) == page


def test_the_counts_add_up():
    """The keys are counted a second time, one by one."""
    rows = re.findall(
        r"^\| ([a-z ]+) \| (\d+) \| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    counted = {kind: (int(rl), int(sft)) for kind, rl, sft in rows}
    for column, (file, known) in enumerate(
        {RL_FILE: reference(), SFT_FILE: sft_reference()}.items()
    ):
        kinds = [ledger(file).entry(key).kind for key, _ in leaves(known)]
        for kind in KeyKind:
            assert counted[kind.value][column] == kinds.count(kind)
        assert sum(each[column] for each in counted.values()) == len(kinds)


def test_every_group_is_in_the_page():
    page = PAGE.read_text(encoding="utf-8")
    for file in (RL_FILE, SFT_FILE):
        for entry in [*ledger(file).keys.values(), *ledger(file).sections.values()]:
            assert entry.why in page
            assert entry.instead in page
            assert entry.note in page
