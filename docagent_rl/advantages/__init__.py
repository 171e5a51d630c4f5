"""Advantage estimators of multi-turn agents: pure functions from `AdvantageInputs` to `Advantages`.

Tokens of all rows are packed into one flat list in session order (`compress`), every recurrence is one
segmented scan (`scan`), group statistics are sums over integer cells (`groups`).
"""
