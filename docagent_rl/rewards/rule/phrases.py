"""Patterns that several rules share: sources, verbs of citing, and words that negate or retract."""

import re


def any_of(*phrases: str) -> str:
    """Return a pattern that matches any of the comma-separated phrases.

    `any_of("a, b", "c")` is `(?:a|b|c)`.
    """
    return "(?:" + "|".join(each.strip() for row in phrases for each in row.split(", ")) + ")"


EDGE = r"[^\w\n(]{0,20}"
"""Punctuation before a phrase."""

SOURCE = (
    r"\b"
    + any_of(
        "documents?, docs?, reports?, tables?, figures?, fig, charts?, graphs?, plots?, diagrams?, "
        "maps?",
        "images?, pictures?, photos?, screenshots?, pages?, pp?, pg, slides?, sections?, "
        "paragraphs?",
        "passages?, texts?, contexts?, contents?, excerpts?, snippets?, information, info, data, "
        "evidence",
        "sources?, materials?, files?, pdf, papers?, articles?, appendix, chapters?, infographics?",
        "posters?, forms?, invoices?, receipts?, legends?, datasets?, results?, footnotes?, "
        "captions?",
        "scans?, brochures?, manuals?, visuals?, dokument\\w*, bericht\\w*, tabelle\\w*, seiten?",
        "abbildung\\w*, bild\\w*, grafik, diagramm, abschnitt, informationen, tableau, rapport, "
        "graphique",
        "tabla, documento, informe, página, gráfico, imagen, texto, información, informations, "
        "contexto",
        "contexte, figura",
    )
    + r"\b"
)
"""A noun for a source that an answer cites."""

SAID = any_of(
    "found, stated, shown, listed, given, located, mentioned, indicated, reported, displayed, "
    "provided",
    "seen, described, based, taken, confirmed, noted, visible, supported, presented, highlighted, "
    "derived",
    "written, specified, available, included, depicted, illustrated, referenced, read, observed",
    "contained, marked, labell?ed, evident, clear, verified, cited, recorded, documented, "
    "identified",
    "outlined, discussed",
)
"""A participle for how a source gives an answer."""

TURNING = re.compile(
    r"\b"
    + any_of(
        "not, no, never, neither, nor, none, without, cannot, except, excluding, unlike, false, "
        "wrong",
        "incorrect, incorrectly, untrue, doubt, instead, rather, but, however, although, though, "
        "actually",
        "wait, correction, sorry, mistake, mistaken, meant, otherwise, alternatively, unless, "
        "opposite",
        "contrary, or, rejected, ruled? out, refuted, disproved, misread, outdated, superseded, "
        "hardly",
        "if, anything, others?, replaced, should be, should have, different, nicht, kein\\w*, "
        "falsch",
        "sondern, oder, aber, ni, pas, faux, mais, ou, incorrecto, falso, sino, pero",
    )
    + r"\b|n['\u2019]t\b|[不没非无未否错但或≠¬]|!=",
    re.IGNORECASE,
)
"""Words that negate or retract an answer, or introduce another one."""
