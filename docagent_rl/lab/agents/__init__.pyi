from docagent_rl.lab.agents.texts import play_texts as play_texts, whole_turn as whole_turn
from docagent_rl.rollout.recorder import new_trajectory as new_trajectory
from docagent_rl.rollout.trajectory import (
    Trajectory as Trajectory,
    TrajectoryTurn as TrajectoryTurn,
)
