"""Episodes, updates, learners such as `Reinforce`, and any agent evaluated."""

from handrail.learning.baseline import Baseline
from handrail.learning.checkpoint import Checkpoint, make_environment
from handrail.learning.cost import known_costs
from handrail.learning.episode import EVALUATION, Act, Episode, Start, drawing, greedy, play
from handrail.learning.evaluation import Agent, Evaluation, agent_of, evaluate
from handrail.learning.keeper import Holding, Keeper, Terms
from handrail.learning.learner import Learner
from handrail.learning.normalisation import FIXED, refuse_normalised
from handrail.learning.player import Player, Round, is_playing, make_player
from handrail.learning.progress import in_brief
from handrail.learning.record import Record, Seconds
from handrail.learning.reinforce import Reinforce
from handrail.learning.scalars import Scalars
from handrail.learning.tensorboard_log import TensorBoardLog

__all__ = [
    "EVALUATION",
    "FIXED",
    "Act",
    "Agent",
    "Baseline",
    "Checkpoint",
    "Episode",
    "Evaluation",
    "Holding",
    "Keeper",
    "Learner",
    "Player",
    "Record",
    "Reinforce",
    "Round",
    "Scalars",
    "Seconds",
    "Start",
    "TensorBoardLog",
    "Terms",
    "agent_of",
    "drawing",
    "evaluate",
    "greedy",
    "in_brief",
    "is_playing",
    "known_costs",
    "make_environment",
    "make_player",
    "play",
    "refuse_normalised",
]
