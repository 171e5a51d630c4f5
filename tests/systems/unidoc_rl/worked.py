"""The worked example of the specification: three searches, two gold pages, two boxes drawn on one."""

from __future__ import annotations

from docagent_rl.systems.unidoc_rl.search_rounds import SearchRound

GOLD = {"T7", "T9"}
WANTED = {"T9": [(0.12, 0.15, 0.52, 0.46), (0.56, 0.48, 0.94, 0.6)]}
DRAWN = (
    (66 / 532, 118 / 753, 274 / 532, 331 / 753),
    (352 / 532, 400 / 753, 498 / 532, 480 / 753),
)
ROUNDS = [
    SearchRound(("T5", "T7", "T9"), selected="T9", boxes=DRAWN),
    SearchRound(("T2", "T7", "T1"), selected="T7"),
    SearchRound(("R4", "R5", "R6"), selected="R4"),
]
