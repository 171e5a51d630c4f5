"""The page for those who come from EasyR1 has every key of its table."""

from docagent_rl.lab.easyr1.table import entries
from docagent_rl.lab.easyr1.translation import known_keys
from tools.coming_from import BEGIN, END, PAGE, with_tables


def test_the_page_is_that_of_the_table():
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_tables(page), "run python -m tools.coming_from"


def test_what_is_written_by_hand_stays():
    page = with_tables(f"# Mine\n\nabove\n{BEGIN}\nold\n{END}\nbelow\n")
    assert page.startswith(f"# Mine\n\nabove\n{BEGIN}\n")
    assert page.endswith(f"{END}\nbelow\n")
    assert "\nold\n" not in page
    assert with_tables(page) == page


def test_every_key_that_can_be_set_is_in_the_page():
    page = PAGE.read_text(encoding="utf-8")
    for key, entry in entries().items():
        assert (f"`{key}`" in page) == (key not in known_keys().own), key
        assert entry.note in page or key in known_keys().own
