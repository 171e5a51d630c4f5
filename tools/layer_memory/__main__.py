"""Compare the bytes that layers keep by the budget's formulas and by autograd's hooks.

python -m tools.layer_memory [PART_OF_A_MODEL_NAME ...]
"""

import sys

from tools.layer_memory.layers import configurations, count

_HEAD = "| model | layer | kept | formula | at most | formula |\n|---|---|---:|---:|---:|---:|"


def main() -> None:
    """Print a table in bytes per token or patch; arguments are parts of models' names."""
    print(_HEAD)
    for family, name, config in configurations():
        if sys.argv[1:] and not any(part in name for part in sys.argv[1:]):
            continue
        for each in count(family, name, config):
            formula = each.formula
            memory = each.memory
            numbers = (memory.kept, formula.kept, memory.peak, formula.kept + formula.working)
            cells = " | ".join(f"{number:,}" for number in numbers)
            print(f"| {each.model} | {each.what} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
