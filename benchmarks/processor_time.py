"""Where the time of learning under constraints goes: `python -m benchmarks.processor_time`.

What `make bench` judges is wall time, which on a busy machine is that of others, too. Here every
stage is counted in time of the processor, one thread; the page goes to docs/benchmarks/stages.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import process_time
from typing import Any
from unittest.mock import patch

import gymnasium as gym
import numpy as np

from benchmarks.learning.environment_steps import MOST, replay, taped
from handrail import AtLeast, Box, CategoricalPolicy, edit
from handrail.enforcement import enforcer, exchange, rail
from handrail.learning import Reinforce, Seconds, reinforce, update
from handrail.rulebook import AnyConstraints, load_rulebook, with_settings
from handrail.runs import make_agent

_PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "stages.md"
_WIDTH, _WARM_UP = 5000, 8
_Spent = defaultdict[str, float]
_STAGES = ("collecting", "predicting", "updating", "solving")


def main() -> None:
    """Measure, and write the page."""
    with (
        patch.object(reinforce, "perf_counter", process_time),
        patch.object(update, "perf_counter", process_time),
    ):
        runs, regions = _runs(blocks=10, episodes=10), _regions(updates=40)
    page = [_INTRODUCTION, runs, regions, _edits(times=5), _WHAT_IS_LEFT]
    _PAGE.write_text("\n\n".join(page) + "\n", encoding="utf-8")
    print(_PAGE.read_text(encoding="utf-8"))


_INTRODUCTION = """\
# Stages

This page is generated: `python -m benchmarks.processor_time` counts processor time, one thread, so
that what else a machine does matters little. `make bench` judges the same ratios by the clock
([benchmarks](README.md)). One hidden layer of 5000 units, compiled passes (numba)."""


_WHAT_IS_LEFT = """\
## What is left

From run to run a ratio differs by up to a twentieth; where it is near what is asked, `make bench`
decides, which takes medians over many turns.

On Cartpole an action reads all weights once, in float32 where that decides the draw, and a gradient
is made of which states switch which units on, looked up in tables: playing and the gradient alone
come to as much as the bare steps, and the smaller the environment, the larger that is. Of holding
at points a part is influence, measured at 64 references before and after; the rest is a few dozen
small operations per update.

On regions a search and a proof take about as long, for a search begins with the cells that would
prove it: those of all regions that ask for the same are bounded in one compiled pass, and where
they prove a region it is not looked at. What is left is that pass, of one or two hundred cells,
and where a state is violated a climb from it. Working states are a few dozen small operations per
update, too. An update that is collected faster makes the ratio of the same holding larger."""


def _runs(blocks: int, episodes: int) -> str:
    lines = [
        "## A whole training run",
        "",
        "Microseconds per environment step, learning and bare steps in turns. *Playing* is what "
        "collecting takes beyond the bare steps: the policy's pass, the draw, the copies. "
        "*Gradient* includes measuring what is held; *holding* is all that comes after the "
        "step; *other* is baselines, batches, records.",
        "",
        "| file | bare | playing | gradient | step | holding | other | ratio | asked for |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, most in MOST.items():
        agent = _agent(name)
        env, spent, before = load_rulebook(name).make_environment(), _Spent(float), agent.steps
        whole = bare = 0.0
        for _ in range(blocks):
            with taped() as tape:
                start = process_time()
                agent.learn(episodes=episodes, progress_bar=False, callbacks=[_noting(spent)])
                whole += process_time() - start
            start = process_time()
            replay(env, tape)
            bare += process_time() - start
        collecting, *others = (spent[stage] for stage in _STAGES)
        parts = [bare, collecting - bare, *others, whole - collecting - sum(others)]
        per_step = [f"{1e6 * part / (agent.steps - before):.1f}" for part in parts]
        lines.append(f"| {name} | {' | '.join(per_step)} | **{whole / bare:.2f}** | ≤ {most:g} |")
    return "\n".join(lines)


def _regions(updates: int) -> str:
    lines = [
        "## An update that holds the paper's six regions",
        "",
        f"Milliseconds per update, means over {updates} updates. *Working states* is the exact "
        "holding of the states that are held at present, *looking* the search or the proof, "
        "*rest* rows, copies and what is measured elsewhere.",
        "",
        "| looking | collect | gradient | step | working states | looking | rest | ratio | asked |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for prove in (False, True):
        agent = _agent("cartpole_regions", selection={"strategy": "everywhere", "prove": prove})
        spent = _Spent(float)
        with _counted(spent):
            agent.learn(episodes=updates, progress_bar=False, callbacks=[_noting(spent)])
        rest = spent["holding"] - spent["working"] - spent["looking"]
        own = [spent[stage] for stage in _STAGES[:3]]
        parts = [*own, spent["working"], spent["looking"], rest]
        ratio = (sum(parts) - spent["collecting"]) / spent["collecting"]
        numbers = " | ".join(f"{1e3 * part / updates:.2f}" for part in parts)
        lines.append(f"| {'proof' if prove else 'search'} | {numbers} | **{ratio:.1f}** | < 3 |")
    return "\n".join(lines)


def _edits(times: int) -> str:
    lines = [
        "## An edit",
        "",
        "Seconds of `edit`, by which a fresh network is made to obey and kept as it was at 2,000 "
        f"random states: the median of {times} networks.",
        "",
        "| what is asked | seconds | asked for |",
        "| --- | ---: | ---: |",
    ]
    env = gym.make("CartPole-v1")
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (2000, 4)) * [2.4, 2.0, 0.25, 2.0]
    leaning = Box([-2.0, -1.0, 0.1, 0.0], [2.0, 1.0, 0.2, 1.0])
    asked: dict[str, AnyConstraints] = {
        "a box: leaning right, push right": [AtLeast(0.95, 1, leaning)],
        "the 18 states of Cartpole": "cartpole",
    }
    for name, constraints in asked.items():
        spent = []
        for seed in range(times + 1):
            policy = CategoricalPolicy.mlp(env, hidden=[_WIDTH], seed=seed)
            start = process_time()
            edit(policy, constraints, references=states)
            spent.append(process_time() - start)
        # The first one compiles.
        lines.append(f"| {name} | **{np.median(spent[1:]):.1f}** | < 2 |")
    return "\n".join(lines)


def _agent(name: str, **settings: Any) -> Reinforce:
    book = with_settings(load_rulebook(name), network={"hidden": [_WIDTH]}, **settings)
    agent = make_agent(book)
    agent.learn(episodes=_WARM_UP, progress_bar=False)
    # Seldom needed by then, and to compile or load it takes as long as a few episodes.
    assert isinstance(agent.policy, CategoricalPolicy)  # of both files
    agent.policy.act(np.zeros(agent.player.spaces[0].shape or ()), np.random.default_rng(0))
    return agent


def _noting(spent: _Spent) -> Callable[[object, object, Seconds], None]:
    def note(_agent: object, _record: object, seconds: Seconds) -> None:
        for stage in _STAGES:
            spent[stage] += getattr(seconds, stage)

    return note


@contextmanager
def _counted(spent: _Spent) -> Iterator[None]:
    """The time of the parts of holding, by name."""
    parts: dict[str, tuple[Any, str]] = {
        "holding": (rail.Rail, "hold"),
        "working": (exchange, "enforce_rows"),
        "looking": (enforcer.RegionEnforcer, "_find"),
    }
    with ExitStack() as stack:
        for name, (owner, attribute) in parts.items():
            timed = _timed(getattr(owner, attribute), name, spent)
            stack.enter_context(patch.object(owner, attribute, timed))
        yield


def _timed(function: Callable[..., Any], name: str, spent: _Spent) -> Callable[..., Any]:
    def timed(*given: Any, **named: Any) -> Any:
        start = process_time()
        try:
            return function(*given, **named)
        finally:
            spent[name] += process_time() - start

    return timed


if __name__ == "__main__":
    main()
