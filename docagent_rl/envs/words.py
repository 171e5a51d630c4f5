"""Words that are common in reports, for whatever has to write something about any of them."""

from __future__ import annotations

SUBJECTS = tuple(
    """
    revenue income profit cost expense budget margin sales growth share price rate tax debt cash asset
    population energy water production demand supply emission carbon solar wind oil gas traffic export
    import market customer product service employee company country region city school student patient
    hospital project team department user system network device model method experiment survey study
    result
    """.split()  # noqa: SIM905  a line of words reads better than a list of them
)

OBJECTS = tuple(
    """
    report chapter section table figure chart diagram graph map photo image page document slide row
    column title caption footnote appendix legend axis header list summary paragraph
    """.split()  # noqa: SIM905  a line of words reads better than a list of them
)
