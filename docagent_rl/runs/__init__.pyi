from docagent_rl.runs.columns import (
    Column as Column,
    RunTable as RunTable,
)
from docagent_rl.runs.run import (
    Run as Run,
    RunKind as RunKind,
    open as open,
)
