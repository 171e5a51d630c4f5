from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.documents import OutlineEntry
from docagent_rl.documents.contents import (
    Caption,
    Heading,
    document_title,
    list_of_figures,
    render_contents,
    render_figures,
    shortened,
    table_of_contents,
)
from docagent_rl.documents.contents.labels import longest_sequence

BOOKMARKS = [OutlineEntry(f"Part {n}", n % 5 + 1, n) for n in range(1, 6)]
PLAIN = {n: f"Words of page {'abcde'[n - 1]}\nmore words" for n in range(1, 6)}


def entries(outline, texts, **options):
    return [(h.level, h.title, h.page) for h in table_of_contents(outline, texts, **options)]


def titles(texts):
    return [title for _, title, _ in entries([], texts)]


def test_bookmarks_come_first():
    found = entries([*BOOKMARKS, OutlineEntry("lost", 1, None), OutlineEntry(" ", 1, 2)], PLAIN)
    assert found == [
        (2, "Part 1", 1),
        (3, "Part 2", 2),
        (3, "Part 3", 3),
        (3, "Part 4", 4),
        (1, "Part 5", 5),
    ]
    # those outside of the pages do not count
    assert entries(BOOKMARKS, {4: PLAIN[4], 5: PLAIN[5]})[0] == (1, "Words of page d", 4)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (  # Markdown
            {
                1: "# The Report\ntext\n## 1 Aims",
                2: "### Means\n#### Deep\n#no heading\n# 5",
                3: "text",
            },
            [(1, "The Report", 1), (2, "1 Aims", 1), (3, "Means", 2), (3, "Deep", 2)],
        ),
        (  # numbers
            {
                1: "1 Introduction\n12 people came to the meeting\n2021 was a year\nWe saw 3 Foxes",
                2: "2.1 Data and Methods\n2.1.3.4 Very Deep\n3. Results of it.\nChapter "
                "4\nAppendix B: Maps",
                3: "4 Contents line ........ 12\n5 Contents Line 13\nIV. no",
            },
            [
                (1, "1 Introduction", 1),
                (2, "2.1 Data and Methods", 2),
                (3, "2.1.3.4 Very Deep", 2),
                (1, "Chapter 4", 2),
                (1, "Appendix B: Maps", 2),
            ],
        ),
        (  # first lines
            {1: "12\nA title\nmore", 2: "", 3: "Another\nmore words", 4: "Last one"},
            [(1, "A title", 1), (1, "Another", 3), (1, "Last one", 4)],
        ),
        ({1: "", 2: "12 34"}, []),
        (  # a journal: its list of references goes on from its sections
            {
                1: "A Title\n1. Introduction\nWords of it",
                2: "2. Methods\n2.1. Data\nMore",
                3: "3. Results\nReferences\n"
                + "\n".join(f"{n}. Smith J. Rivers of the\nNorth." for n in range(1, 31)),
                4: "\n".join(f"{n}. Jones K. Hills of the\nWest." for n in range(31, 61))
                + "\nAppendix A: Maps",
            },
            [
                (1, "1. Introduction", 1),
                (1, "2. Methods", 2),
                (2, "2.1. Data", 2),
                (1, "3. Results", 3),
                (1, "Appendix A: Maps", 4),
            ],
        ),
        (  # another
            {
                1: "I. INTRODUCTION\nI. Smith wrote it",
                2: "II. RELATED WORK\nIV. no",
                3: "III. DATA\nREFERENCES",
            },
            [(1, "I. INTRODUCTION", 1), (1, "II. RELATED WORK", 2), (1, "III. DATA", 3)],
        ),
        (  # parts of sentences are none
            {
                1: "1 First things\nPart of the plan is to go on\nSection a of the law\nchapter "
                "and verse",
                2: "2 Second things\nPart I of the plan went well\nSection 3 describes how",
                3: "3 Third things",
            },
            [(1, "1 First things", 1), (1, "2 Second things", 2), (1, "3 Third things", 3)],
        ),
    ],
)
def test_headings(texts, expected):
    assert entries([], texts) == expected


def test_comments_of_programs_are_no_headings_and_running_headers_dropped():
    code = {7: "# Run this\n# And that\n# And more", 8: "# make\n# do\n# go"}
    assert "Run this" not in titles(dict.fromkeys(range(1, 41), "text") | code)
    texts = {
        n: f"Company report | page {n}\nBody of {'abcdefgh'[n - 1]}\nrepeated twice{n // 7 or ''}"
        for n in range(1, 9)
    }
    assert titles(texts) == [f"Body of {letter}" for letter in "abcdefgh"]


def test_capitals_are_headings_of_manual_pages_alone():
    """Signs of a program, a sentence or a variable are not taken for a heading."""
    names = ["NAME", "SYNOPSIS", "EXIT STATUS", "SEE ALSO"]
    texts = {
        n: f"{name}\nwords of a page\nHOME=/root\nSTOP!\nAB" for n, name in enumerate(names, 1)
    }
    assert entries([], texts) == [(1, name, page) for page, name in enumerate(names, 1)]
    others = {
        n: text.replace("SYNOPSIS", "AGENDA").replace("NAME", "DATES") for n, text in texts.items()
    }
    assert entries([], others, first_lines=False) == []


def test_too_many_entries_lose_their_deepest_levels():
    headings = [Heading(1 + n % 3, f"H{n}", 1) for n in range(30)]
    assert len(shortened(headings, 30)) == 30
    for most, levels in ((20, {1, 2}), (19, {1})):
        assert {heading.level for heading in shortened(headings, most)} == levels
    assert [heading.title for heading in shortened(headings, 4)] == ["H0", "H3", "H6", "H9"]


def test_lists_that_start_again_are_no_headings():
    steps = "1. Open the box\n2. Take the thing out\n3. Close the box"
    parts = [
        (f"{n} Chapter of {x}", f"{n}.1 Section of {x}") for n, x in enumerate("abcde", start=1)
    ]
    texts = {
        n: f"{chapter}\n{steps}\n{section}" for n, (chapter, section) in enumerate(parts, start=1)
    }
    assert titles(texts) == [title for part in parts for title in part]


BOOK = ["Vorwort", "1 Einleitung", "1.1 Was es gibt", "2 Methoden", "Anhang A: Zahlen"]


def book(leader):
    """Return a book: a title page, contents on pages 2 and 3, and text from page 4 on, where page
    numbers start with 1.
    """
    table = [f"{title}{leader}{2 * place + 1}" for place, title in enumerate(BOOK)]
    texts = {1: "Das Buch", 2: "\n".join(["Inhalt", *table]), 3: ""}
    for place, title in enumerate(BOOK):
        first = 4 + 2 * place
        texts[first] = (
            f"{title}\nDas ist der Text {'abcde'[place]}.\n1. Ein Punkt der Liste\n{2 * place + 1}"
        )
        texts[first + 1] = f"{title} {2 * place + 2}\nMehr Text {'abcde'[place]}, 12 Leute kamen.\n"
    return texts


@pytest.mark.parametrize(
    "leader", [" . . . . . . ", "......... ", " … … … … ", " \u00b7\u00b7\u00b7\u00b7 "]
)
def test_a_printed_table_leads_to_the_pages_of_the_file(leader):
    found = [(title, page) for _, title, page in entries([], book(leader))]
    assert found == [(title, 4 + 2 * place) for place, title in enumerate(BOOK)]
    # that of another book is not trusted
    texts = book(leader) | {n: f"Words of page {'abcdefghijklmn'[n]}" for n in range(4, 14)}
    assert not set(titles(texts)) & set(BOOK[1:])


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (
            {
                3: "FIGURE 2: Late\nsee Figure 1\nFigures show\nTable A.1 Values\nChart IV "
                "Rise\ntable of x",
                1: "Figure 1. First\nFig. 7 b\nExhibit 9\nTable 3 List entry ........ 44\nFigure "
                "1. First",
            },
            "1 Figure 1. First|1 Fig. 7 b|1 Exhibit 9|3 FIGURE 2: Late|3 Table A.1 Values|3 Chart "
            "IV Rise",
        ),
        (
            {
                1: "Figure 3 shows that\nTable 2 and\nFig. 4 is\nsee\nFigure 5. It is\nin (\nTable "
                "6: x",
                2: "Figure 5. A picture\nAbbildung 2: Ein Bild\n図 3 画面\n"
                "Tableau 1. Des rues\nTable 6: Yes",
            },
            "2 Figure 5. A picture|2 Abbildung 2: Ein Bild|2 図 3 画面|"
            "2 Tableau 1. Des rues|2 Table 6: Yes",
        ),
    ],
)
def test_captions(texts, expected):
    found = [f"{caption.page} {caption.text}" for caption in list_of_figures(texts)]
    assert found == expected.split("|")


def test_all_captions_are_listed_up_to_a_bound():
    texts = {
        n: f"Table {n}: Values of {n}\nas shown in\nTable {n}. Then it goes on"
        for n in range(1, 170)
    }
    assert [caption.page for caption in list_of_figures(texts)] == list(range(1, 170))
    assert len(list_of_figures({1: "Table 1 X" + "x" * 500})[0].text) == 160


def test_rendering():
    headings = [Heading(1, "A", 1), Heading(3, "B", 2)]
    assert render_contents(headings) == "A \u2026 p.1\n    B \u2026 p.2"
    assert render_figures([Caption("Table 1", 4)]) == "Table 1 \u2026 p.4"
    assert render_contents([]) == render_figures([]) == "none"
    assert "7 more" in render_contents(headings, omitted=7).splitlines()[-1]


words = st.sampled_from(
    [
        "1",
        "2.1",
        "Chapter",
        "A",
        "#",
        ". . . . 7",
        "iv",
        "Table 3:",
        "of",
        "図 1",
        "\u0663",
        "Ⅳ",
        "12",
        "|",
    ]
)
odd_lines = st.lists(st.lists(words, max_size=4).map(" ".join), max_size=6).map("\n".join)


@settings(max_examples=50)
@given(st.dictionaries(st.integers(1, 40), odd_lines | st.text(max_size=40), max_size=5))
def test_entries_lie_on_given_pages(texts):
    for entry in table_of_contents([], texts):
        assert entry.page in texts
        assert 1 <= entry.level <= 3
        assert 0 < len(entry.title) <= 100
        assert "\n" not in entry.title
    assert all(caption.page in texts for caption in list_of_figures(texts))


@pytest.mark.parametrize(
    "line", ["1 " + ". " * 100_000, "#" * 200_000, "Figure 1 " + "." * 200_000, "1.1" * 50_000]
)
def test_long_lines_take_linear_time(line):
    """The test would take a day if the time were quadratic."""
    assert all(len(entry.title) <= 100 for entry in table_of_contents([], {1: line, 2: line}))
    assert all(len(caption.text) <= 160 for caption in list_of_figures({1: line}))


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple), max_size=30))
def test_sequences_rise(numbers):
    chosen = longest_sequence(numbers)
    assert chosen == sorted(set(chosen))
    assert all(numbers[a] < numbers[b] for a, b in pairwise(chosen))
    assert bool(chosen) == bool(numbers)


@pytest.mark.parametrize(
    "stated", ["", "  ", "untitled", "Microsoft Word - a.doc", "thesis.dvi", "Slide 1", "12"]
)
def test_a_placeholder_is_no_title(stated):
    assert document_title(stated, {1: "", 2: "# Rivers\nwords"}) == "Rivers"
    assert document_title(stated, {1: "words"}) == ""


def test_the_stated_title_comes_first():
    assert document_title(" A\n survey ", {1: "# Rivers"}) == "A survey"


def prose(page: int) -> list[str]:
    return [f"Of the {word} that came in {'the ' * page} spring" for word in "abcdefghijkl"]


def test_footnotes_at_the_foot_of_pages_are_no_headings():
    notes = (
        "See the report of the harbour master",
        "Counted by hand",
        "Without the ferries of Kantora",
    )
    lines = [f"{page} {note}" for page, note in enumerate(notes, start=1)]
    footed = {page: "\n".join([*prose(page), line]) for page, line in enumerate(lines, start=1)}
    assert table_of_contents((), footed, first_lines=False) == ()
    headed = {page: "\n".join([line, *prose(page)]) for page, line in enumerate(lines, start=1)}
    assert [each.title for each in table_of_contents((), headed, first_lines=False)] == lines


@pytest.mark.parametrize("pages_a_unit", [1, 2])
def test_units_are_headings_though_most_pages_have_one(pages_a_unit):
    texts = {page: "\n".join(prose(page)) for page in range(1, 33)}
    units = {pages_a_unit * (unit - 1) + 1: f"UNIT {unit}" for unit in range(1, 17)}
    for page, unit in units.items():
        texts[page] = f"{unit}\n{texts[page]}"
    found = table_of_contents((), texts, first_lines=False)
    assert {each.page: each.title for each in found} == units
