"""Compare the headings that are found in manual pages with the `.SH` macros of their sources.

groff turns the sources into PDFs.

python -m benchmarks.manual_pages /usr/share/man --layout
"""

from __future__ import annotations

import gzip
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from benchmarks.contents import plain, read
from docagent_rl.documents.contents import table_of_contents
from docagent_rl.documents.contents.typography import typed_headings, with_numbered

_HEADING = re.compile(
    r"^\.[ ]*(?:S[Hh](?P<section>[ ].+|[ ]*\n.+)|S[Ss](?P<part>[ ].+|[ ]*\n.+))$", re.MULTILINE
)
_ESCAPES = re.compile(r"\\f[A-Z]|\\s[-+]?\d|\\[&/|]|\"")


def sources(folder: Path, least: int) -> Iterator[str]:
    """Yield the sources of the English manual pages of at least `least` bytes, each once."""
    seen = set()
    for path in sorted(folder.glob("man[1-8]*/*.gz")):
        text = gzip.decompress(path.read_bytes()).decode(errors="replace")
        if len(text) >= least and text not in seen:
            seen.add(text)
            yield text


def titles(source: str, kind: str) -> set[str]:
    """Return the letters and digits of the titles of a source.

    Args:
        source: a manual page in groff's language.
        kind: `section` for sections (`.SH`), `part` for their subsections (`.SS`).
    """
    named = (match[kind] or "" for match in _HEADING.finditer(source))
    return {plain(_ESCAPES.sub("", title)) for title in named} - {""}


def main(
    folder: Annotated[Path, typer.Argument(help="A folder that contains man1, man2 and so on.")],
    layout: Annotated[bool, typer.Option(help="Find headings as `ingest --layout` does.")] = False,
    least: Annotated[int, typer.Option(help="Fewest bytes of a source.")] = 60_000,
) -> None:
    """Print precision and recall of the titles of sections; subsections do not count."""
    pages = hits = found = true = count = 0
    with TemporaryDirectory() as scratch:
        pdf = Path(scratch) / "manual.pdf"
        for source in sources(folder, least):
            drawn = subprocess.run(
                ["groff", "-t", "-mandoc", "-Tpdf"],
                input=source.encode(),
                capture_output=True,
                check=False,
            )
            if not drawn.stdout:
                continue
            pdf.write_bytes(drawn.stdout)
            texts = read(pdf).texts
            outline = with_numbered(typed_headings(pdf, len(texts)), texts) if layout else ()
            headings = table_of_contents(outline, texts, max_title=1000, first_lines=False)
            named = {plain(heading.title) for heading in headings} - titles(source, "part")
            sections = titles(source, "section")
            hits += len(named & sections)
            found += len(named)
            true += len(sections)
            pages += len(texts)
            count += 1
    typer.echo(f"{count} manuals of {pages} pages, {true} sections")
    typer.echo(f"precision {hits / found:.3f}, recall {hits / true:.3f}")


if __name__ == "__main__":
    typer.run(main)
