import random

from docagent_rl.documents.contents import table_of_contents
from docagent_rl.documents.letter_sizes import settled
from docagent_rl.documents.typography import MEASURED, Line, Style

PROSE = "The water level of the river was measured every morning at the bridge and written down."


def line(text: str, size: float, top: float = 0.1, font: str = MEASURED) -> Line:
    return Line(text, Style(size, font, False, 792 * (1 - top)), (0.1, top, 0.9, top + 0.01))


def scan() -> dict[int, list[Line]]:
    """Twelve pages of a manual; every size measures up to a twelfth more or less."""
    noise = random.Random(5)

    def measured(text: str, size: float, row: int) -> Line:
        return line(text, round(size * noise.uniform(0.92, 1.08), 1), 0.05 + 0.03 * row)

    pages = {}
    for page in range(1, 13):
        title = f"Rivers of the {['north', 'south', 'east', 'west'][page % 4]} {'abcdefghijkl'[page - 1]}"
        prose = [measured(f"{PROSE} {page} {row}", 10, row) for row in range(2, 20)]
        pages[page] = [measured(title, 17, 0), *prose[:9], measured(f"x = {page};", 13, 12), *prose[9:]]
    return pages


def test_sizes_alike_become_one_and_tell_the_outline_of_a_scan():
    pages = scan()
    assert len({line.style.size for lines in settled(pages).values() for line in lines}) == 3
    texts = {page: "\n".join(line.text for line in lines) for page, lines in pages.items()}
    headings = table_of_contents((), texts, typography=pages)
    assert [(heading.title, heading.page) for heading in headings] == [
        (lines[0].text, page) for page, lines in pages.items()
    ]


def test_lines_of_a_text_layer_and_odd_sizes_stay_as_they_are():
    pages = {1: [line("A", 10.1, font="Times"), line("B", 10.3, font=""), Line("C")]}
    assert settled(pages) == pages
    mixed = {1: [line("A", 10.1, font="Times"), line("long body of a scan", 10.2), line("B", 10.6)]}
    assert [item.style.size for item in settled(mixed)[1]] == [10.1, 10.2, 10.2]
    odd = {1: [line("a", 0.0), line("b", -1.0), line("c", 1e-9), line("d", 900.0)], 2: []}
    assert [item.text for item in settled(odd)[1]] == ["a", "b", "c", "d"]
