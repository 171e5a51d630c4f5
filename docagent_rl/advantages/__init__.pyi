from docagent_rl.advantages.inputs import (
    AdvantageInputs as AdvantageInputs,
    Advantages as Advantages,
    Discounts as Discounts,
)
from docagent_rl.advantages.registry import (
    Estimator as Estimator,
    Need as Need,
    register as register,
    registered_estimators as registered_estimators,
)
from docagent_rl.advantages.trajectories import (
    compress as compress,
    trajectory_table as trajectory_table,
)
