"""Training runs and single observations, as sections of the page."""

from __future__ import annotations

from benchmarks.harness import interval, microseconds, table_of
from benchmarks.learning.environment_steps import LearningCost
from benchmarks.learning.inference import InferenceResults


def inference_section(inference: list[InferenceResults]) -> str:
    """One observation through the policy, the environment and torch."""
    table = table_of(
        inference,
        {
            "environment": lambda one: one.environment,
            "`policy.act` (µs)": lambda one: microseconds(one.act_seconds),
            "`env.step` (µs)": lambda one: microseconds(one.environment_seconds),
            "torch (µs)": lambda one: microseconds(one.torch_seconds),
            "act / step": lambda one: f"**{one.act_over_environment:.2f}**",
            "torch / act": lambda one: f"**{one.torch_over_act:.1f}**",
        },
    )
    return f"""## One observation

What collecting experience costs per step: an action drawn by `policy.act`, a step of the \
environment as `gym.make` gives it, and an action drawn the usual way (torch module and \
`Categorical.sample`), one thread each, 15 calls a turn.

{table}"""


def learning_section(costs: list[LearningCost]) -> str:
    """Whole runs in units of their environment's steps."""
    table = table_of(
        costs,
        {
            "file": lambda one: one.name,
            "numba": lambda one: "yes" if one.compiled else "no",
            "episodes": lambda one: str(one.episodes),
            "steps": lambda one: f"{one.steps:,}",
            "bare step, µs": lambda one: microseconds(one.bare_seconds),
            "ratio": lambda one: f"**{one.ratio:.2f}**",
            "quartiles": lambda one: interval(one.quartiles),
            "collect, %": lambda one: f"{100 * one.shares['collecting']:.0f}",
            "predict, %": lambda one: f"{100 * one.shares['predicting']:.0f}",
            "solve, %": lambda one: f"{100 * one.shares['solving']:.0f}",
            "update, %": lambda one: f"{100 * one.shares['updating']:.0f}",
        },
    )
    return f"""## A whole training run

Wall time of learning with exact enforcement, settings of the bundled constraint file, divided by \
the time of the same environment steps alone: the same seeds and actions, block by block in turns. \
The shares say where the learning time goes; collecting contains the environment itself. In \
processor time, stage by stage: [stages](stages.md).

{table}"""
