"""Double deep Q-learning, to compare with: one seed in a folder, and what it left there."""

from paper.q_learning.run import EVALUATION, learn_q, read_metrics, steps_learned

__all__ = ["EVALUATION", "learn_q", "read_metrics", "steps_learned"]
