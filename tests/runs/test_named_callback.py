"""Callbacks by their name: found before anything is learned, and heard when they raise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handrail.errors import InvalidArgument
from handrail.executors import ProcessExecutor, Watcher
from handrail.runs.group import learn_all
from handrail.runs.named_callback import NamedCallback
from handrail.runs.run import Run
from tests.runs.test_run import book

HERE = __name__

seen: list[int] = []
not_a_function = 5


def listen(agent: Any, record: Any, seconds: Any) -> None:
    assert agent.episodes > record.episode
    assert seconds.collecting > 0.0
    seen.append(record.episode)


def stop_after_two(_: Any, record: Any, __: Any) -> bool:
    return bool(record.episode < 1)


def fail(_: Any, record: Any, __: Any) -> None:
    if record.episode == 2:
        raise KeyError("no key")


def of_two(agent: Any, record: Any) -> None: ...


def write_a_file(agent: Any, record: Any, _: Any) -> None:
    Path(f"seed-{agent.settings.seed}.txt").write_text(str(record.episode))


class Quiet(Watcher):
    def on_report(self, number: int, message: Any) -> None: ...

    def on_end(self, number: int) -> None: ...

    def on_notice(self, text: str) -> None: ...


def test_it_is_called_after_every_episode(tmp_path: Path) -> None:
    seen.clear()
    run = Run.create(tmp_path / "run", book(episodes=3))
    run.learn(callbacks=[NamedCallback.of(f"{HERE}:listen")])
    assert seen == [0, 1, 2]


def test_false_ends_the_run_to_be_resumed(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", book(episodes=4))
    run.learn(callbacks=[NamedCallback(HERE, "stop_after_two")])
    assert len(run.records()) == run.saved_episodes == 2
    run.learn()
    assert run.finished


def test_what_it_raises_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", book(episodes=4))
    with pytest.raises(
        InvalidArgument, match=r":fail raised KeyError after episode 2: 'no key'. What was learned"
    ):
        run.learn(callbacks=[NamedCallback(HERE, "fail")])
    assert len(run.records()) == run.saved_episodes == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "expected module:function, such as my_logging:after_episode"),
        (":listen", "expected module:function"),
        ("no_such_module:f", "no_such_module:f: ModuleNotFoundError: No module named"),
        (f"{HERE}:listem", "has no function listem. Did you mean listen"),
        (
            f"{HERE}:not_a_function",
            "not_a_function is of type int, which cannot be called. Name a function of",
        ),
        (f"{HERE}:of_two", r"is called as of_two\(agent, record, seconds\), but too many pos"),
    ],
)
def test_names_that_lead_nowhere(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^--callback .*{message}"):
        NamedCallback.of(text)


def test_it_is_called_where_the_run_is_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Run.create(tmp_path / "run", book(episodes=2))
    executor = ProcessExecutor(1, [HERE])
    named = NamedCallback.of(f"{HERE}:write_a_file")
    outcome = learn_all([run], executor, Quiet(), callback=named)
    assert outcome.failures == ()
    assert Path("seed-4.txt").read_text() == "1"
