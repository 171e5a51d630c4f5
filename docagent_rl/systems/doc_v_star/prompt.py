"""The parts and variables of Doc-V*'s prompt files."""

from docagent_rl.base.prompts import PromptSpec

PROMPT = PromptSpec(
    required=frozenset(
        {
            "system",
            "user",
            "sampled",
            "sheet",
            "page",
            "visited",
            "none_left",
            "none_found",
            "no_such_page",
            "no_number",
            "surplus",
            "withheld",
            "memory",
            "turns_left",
            "final_turn",
            "reminder",
        }
    ),
    variables=frozenset(
        {
            "question",
            "num_pages",
            "first_page",
            "last_page",
            "turns",
            "k",
            "fetch_pages",
            "retrieval",
            "fetch",
            "analysis",
            "overview",
            "header",
            "stride",
            "shown",
            "memory",
            "abstention",
            "page",
            "pages",
            "more",
            "sheet",
            "sheets",
            "turn",
            "left",
            "reason",
            "summaries",
        }
    ),
    shown=frozenset({"question"}),
)
