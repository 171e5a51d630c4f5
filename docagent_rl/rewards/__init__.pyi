from docagent_rl.rewards.formula import (
    Formula as Formula,
    Gate as Gate,
)
from docagent_rl.rewards.judge import (
    Judge as Judge,
    JudgeConfig as JudgeConfig,
    JudgeKind as JudgeKind,
    make_judge as make_judge,
)
