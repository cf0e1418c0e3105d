"""Play and training: the library's own episodes, and environments that misbehave."""

from __future__ import annotations

import time
from collections.abc import Iterator
from queue import Empty, Queue
from typing import Any

import pytest

import handrail as hr
from handrail.rulebook import parse
from handrail.studio.behaviour import PlayEpisodes
from handrail.studio.engine import Ended, Engine, Inbox, Target
from handrail.studio.jobs import TellWeights, Weights
from handrail.studio.messages import Note, Played
from handrail.studio.workbench import Workbench
from tests.studio.conftest import TEXT


@pytest.fixture
def bench() -> Workbench:
    made = Workbench(Target(TEXT, "lean.yaml"))
    made.draw(0, TEXT, None)
    made.hold(0, 3)
    return made


def reports_of(job: Any, bench: Workbench, inbox: Inbox | None = None) -> list[Any]:
    reports: list[Any] = []
    job.run(bench, inbox or Inbox(), reports.append)
    return reports


def weights(bench: Workbench) -> Weights:
    (found,) = reports_of(TellWeights(), bench)
    assert isinstance(found, Weights)
    return found


def test_episodes_are_those_of_evaluate(bench: Workbench) -> None:
    job = PlayEpisodes(TEXT, weights(bench), episodes=6, deterministic=False, film=False)
    played = reports_of(job, bench)[-1]
    assert isinstance(played, Played)
    book, policy = bench.on_stage(TEXT, weights(bench).held)
    env = book.make_environment()
    expected = hr.evaluate(policy, env, episodes=6, seed=book.settings.seed)
    env.close()
    assert tuple(played.scores) == expected.scores
    assert [trail.before for trail in played.trails] == [False, True]
    assert played.words.endswith(f"before {sum(played.scores_before) / 6:.1f}")


@pytest.fixture
def odd_engine() -> Iterator[tuple[Engine, Queue[Any]]]:
    """Of an environment that hangs or dies, in a process of its own."""
    heard: Queue[Any] = Queue()
    target = Target(TEXT.replace("CartPole-v1", "Odd-v0"), "odd.yaml")
    engine = Engine(target, ["tests.support.odd_environment"], heard.put)
    yield engine, heard
    engine.end()


def odd_play(manner: str, bench: Workbench) -> PlayEpisodes:
    text = TEXT.replace(
        "{id: CartPole-v1, max_episode_steps: 50}", f"{{id: Odd-v0, options: {{manner: {manner}}}}}"
    )
    parse(text, "odd.yaml")
    return PlayEpisodes(text, weights(bench), 2, deterministic=False, film=False)


def next_of(heard: Queue[Any], kind: type[Any], seconds: float = 60.0) -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            found = heard.get(timeout=seconds)
        except Empty:
            break
        if isinstance(found, kind):
            return found
    raise TimeoutError(kind.__name__)


def test_an_environment_may_crash_die_or_hang(
    odd_engine: tuple[Engine, Queue[Any]], bench: Workbench
) -> None:
    engine, heard = odd_engine
    engine.submit(odd_play("raises", bench))
    assert "The environment raised RuntimeError at step 3" in next_of(heard, Note).text
    engine.submit(odd_play("dies", bench))
    assert next_of(heard, Ended).code == 7
    engine.submit(odd_play("plays", bench))
    while not next_of(heard, Played).done:
        pass
    engine.submit(odd_play("hangs", bench))
    time.sleep(0.5)
    engine.end()
    assert not engine.is_alive
