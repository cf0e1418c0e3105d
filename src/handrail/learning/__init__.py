"""Episodes, updates, `Reinforce`, and any agent evaluated."""

from handrail.learning.checkpoint import make_environment, unpack_constraints
from handrail.learning.contestant import evaluate
from handrail.learning.episode import Episode, Start, drawing, greedy, play
from handrail.learning.evaluation import Evaluation
from handrail.learning.learner import EVALUATION, Learner
from handrail.learning.player import Round, make_player
from handrail.learning.progress import in_brief
from handrail.learning.record import Record, Seconds
from handrail.learning.reinforce import Reinforce

__all__ = [
    "EVALUATION",
    "Episode",
    "Evaluation",
    "Learner",
    "Record",
    "Reinforce",
    "Round",
    "Seconds",
    "Start",
    "drawing",
    "evaluate",
    "greedy",
    "in_brief",
    "make_environment",
    "make_player",
    "play",
    "unpack_constraints",
]
