"""The best policy of a run: which it is, by brute force; interruptions do not change it."""

from __future__ import annotations

import shutil
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

import handrail as hr
from handrail.errors import InvalidArgument, InvalidRun
from handrail.learning.record import Record, Seconds
from handrail.runs.best_policy import BEST, BestKeeper, BestPolicy
from handrail.runs.policy_file import open_best_policy
from handrail.runs.run import CHECKPOINTS, Run, make_agent
from tests.runs.test_run import book

EPISODES = 125


def best_file(run: Run) -> Path:
    return run.folder / CHECKPOINTS / BEST


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that nothing interrupted, and that learns too fast to get only better."""
    settings = {"episodes": EPISODES, "step_size": 0.02}
    run = Run.create(tmp_path_factory.mktemp("whole") / "run", book(**settings))
    run.learn()
    return run


def test_it_is_the_one_whose_last_100_episodes_scored_best(whole: Run) -> None:
    scores = [record.score for record in whole.records()]
    averages = [np.mean(scores[k - 100 : k]) for k in range(100, EPISODES + 1)]
    best = whole.best()
    assert best.average == pytest.approx(max(averages))
    after = 100 + int(np.argmax(np.round(averages, 9)))
    assert best.checkpoint.progress.episodes == after < EPISODES  # or the test shows nothing
    agent = whole.best_agent()
    again = make_agent(whole.rulebook)
    again.learn(episodes=after, progress_bar=False)
    for name, weights in again.policy.module.state_dict().items():
        np.testing.assert_array_equal(agent.policy.module.state_dict()[name], weights)
    assert hr.measure(agent.policy, list(whole.rulebook.constraints)).worst_violation <= 1e-6
    assert agent.learn(episodes=2, progress_bar=False) == whole.records()[after : after + 2]


def test_interruptions_do_not_change_it(whole: Run, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", whole.rulebook)
    for end in (60, 103, 110):

        def interrupted(record: Record, _: Seconds, end: int = end) -> None:
            if record.episode == end:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run.learn(watch=interrupted, checkpoint_seconds=0.0)
    run.learn()
    assert best_file(run).read_bytes() == best_file(whole).read_bytes()


def test_one_that_is_newer_than_the_checkpoint_comes_again(whole: Run, tmp_path: Path) -> None:
    """Killed between the two files of a save."""
    run = Run.create(tmp_path / "run", whole.rulebook)
    run.learn(stop=lambda: len(run.records()) == 90)
    shutil.copy(best_file(whole), best_file(run))
    run.learn()
    assert best_file(run).read_bytes() == best_file(whole).read_bytes()


def test_scores_that_only_fall_keep_the_first(whole: Run, tmp_path: Path) -> None:
    agent, path = whole.agent(), tmp_path / "best.safetensors"
    keeper = BestKeeper(path, [100.0 - k for k in range(99)])
    keeper.consider(agent)
    keeper.write()
    assert not path.exists()  # of fewer than 100 there is none
    averages = []
    for score in (1.0, 0.0, -1.0):
        keeper.count(score)
        keeper.consider(agent)
        keeper.write()
        averages.append(BestPolicy.load(path).average)
    assert averages == list(accumulate(averages, max)) == [50.5] * 3
    keeper.count(1e6)
    keeper.consider(agent)
    assert BestPolicy.load(path).average == 50.5  # not yet
    keeper.write()
    assert BestPolicy.load(path).average > 1e4


def test_what_cannot_be_opened_is_said(whole: Run, tmp_path: Path) -> None:
    short = Run.create(tmp_path / "short", book(episodes=2))
    short.learn()
    with pytest.raises(
        InvalidArgument, match=r"no best policy: it is kept as soon as 100 episodes were .* 2 were"
    ):
        short.best_agent()
    with pytest.raises(InvalidArgument, match=r"Only a run keeps its best .*agent.zip is none"):
        open_best_policy(tmp_path / "agent.zip", "A file holds one policy")
    damaged = Run.create(tmp_path / "damaged", whole.rulebook)
    damaged.learn(stop=lambda: len(damaged.records()) == 3)
    content = bytearray(best_file(whole).read_bytes())
    content[-1] ^= 1
    best_file(damaged).write_bytes(content)
    with pytest.raises(InvalidRun, match="Delete it to go on without the best so far"):
        damaged.learn()
    shutil.copy(whole.checkpoints()[-1], best_file(damaged))
    with pytest.raises(InvalidRun, match="is a saved learner, but does not say how good it was"):
        damaged.best()
    other = Run.create(tmp_path / "other", book(episodes=EPISODES, step_size=0.2))
    shutil.copy(best_file(whole), best_file(other))
    with pytest.raises(InvalidRun, match=r"best.safetensors is of a learner with other settings"):
        other.best_agent()


def test_the_one_that_was_opened_says_so(whole: Run) -> None:
    opened = open_best_policy(whole.folder, "A file holds one policy")
    best = whole.best()
    assert opened.description == (
        f"corridor, seed 4: best policy, after {best.checkpoint.progress.episodes} episodes, of "
        f"which the last 100 averaged {best.average:.1f}"
    )
    assert opened.stem == whole.folder / "best"
    states = np.array([[0.2, 1.0], [0.9, 1.0]])
    np.testing.assert_array_equal(
        opened.policy.outputs(states), whole.best_agent().policy.outputs(states)
    )
