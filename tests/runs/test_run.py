"""Runs survive: killed, full disks, damaged files, failing environments."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import shutil
import signal
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import handrail as hr
from handrail._storage import load_state, only_process, read_sealed, write_sealed
from handrail.errors import (
    EnvironmentFailure,
    HandrailError,
    InvalidArgument,
    InvalidRulebook,
    InvalidRun,
    StorageFailure,
)
from handrail.learning.record import Record, Seconds
from handrail.proof.certificate_file import verify_certificates
from handrail.rulebook import Rulebook, bundled, load_rulebook, parse, with_settings
from handrail.runs.configuration import CONFIGURATION, CONSTRAINTS, is_run
from handrail.runs.group import open_runs, start_runs
from handrail.runs.metrics import METRICS, TIMINGS
from handrail.runs.run import Run, make_agent
from tests.support.environments import Corridor, Failing
from tests.support.paths import DATA

gym.register("Corridor-v0", entry_point="tests.support.environments:Corridor", max_episode_steps=20)
gym.register(
    "OneNumber-v0", entry_point="tests.support.environments:OneNumber", max_episode_steps=20
)


def failing_in_episode_5(how: str = "raise", **_: Any) -> gym.Env[Any, Any]:
    return Failing(Corridor(), how, step=1, episode=5)


def never_failing(**_: Any) -> gym.Env[Any, Any]:
    return Failing(Corridor(), "raise", step=1, episode=-2)


gym.register("NeverFails-v0", entry_point=never_failing, max_episode_steps=20)
for name, how in (("Fails", "raise"), ("Hangs", "hang"), ("IsInterrupted", "interrupt")):
    gym.register(
        f"{name}InEpisode5-v0",
        entry_point=partial(failing_in_episode_5, how),
        max_episode_steps=20,
    )

TEXT = """
environment: Corridor-v0
observations: [position, one]
actions: [back, on]
constraints:
  - {name: go on, where: {position: [0.2, 0.6], one: 1}, require: on >= 0.9}
settings: {episodes: 30, step_size: 1e-3, seed: 4, network: {hidden: [16]}}
pass_mark: 0.5
"""


def book(**settings: Any) -> Rulebook:
    return with_settings(parse(TEXT, "corridor"), **settings)


def contents(run: Run) -> tuple[bytes, dict[str, Any], dict[str, Any]]:
    """Metrics, tensors and state: all that must be equal in equal runs."""
    tensors, state = load_state(run.checkpoints()[-1])
    return (run.folder / METRICS).read_bytes(), {k: v.tobytes() for k, v in tensors.items()}, state


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that nothing interrupted."""
    run = Run.create(tmp_path_factory.mktemp("whole") / "run", book())
    run.learn()
    return run


def test_a_run_is_a_folder(whole: Run) -> None:
    names = sorted(path.name for path in whole.folder.iterdir() if path.name[0] != ".")
    expected = {"checkpoints", CONFIGURATION, CONSTRAINTS, METRICS, TIMINGS}
    assert set(names) - {"tensorboard"} == expected
    assert (whole.folder / CONSTRAINTS).read_text() == TEXT
    records = whole.records()
    assert [record.episode for record in records] == list(range(30))
    assert len((whole.folder / TIMINGS).read_text().splitlines()) == 30
    assert [path.name for path in whole.checkpoints()] == [
        "episode-00000000.safetensors",  # before the first step, already obeying
        "episode-00000030.safetensors",
    ]
    assert is_run(whole.folder)


def test_the_records_are_those_of_the_learner(whole: Run) -> None:
    assert make_agent(book()).learn(episodes=30) == whole.records()


def test_tensorboard_reads_the_numbers(whole: Run) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import (  # noqa: PLC0415
        EventAccumulator,
    )

    events = EventAccumulator(str(whole.folder / "tensorboard"))
    events.Reload()
    scores = [event.value for event in events.Scalars("handrail/score")]
    np.testing.assert_allclose(scores, [record.score for record in whole.records()], rtol=1e-6)
    for name in ("influence", "largest_influence"):
        values = [event.value for event in events.Scalars(f"handrail/{name}")]
        expected = [record.to_dict()[name] for record in whole.records()]
        np.testing.assert_allclose(values, expected, rtol=1e-6)
    assert "handrail/violation_before" in events.Tags()["scalars"]
    assert "handrail/safe_loss" not in events.Tags()["scalars"]  # exact updates have none
    assert "handrail/seconds/collecting" in events.Tags()["scalars"]


def test_tensorboard_shows_an_interrupted_run_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import (  # noqa: PLC0415
        EventAccumulator,
    )

    run = Run.create(tmp_path / "run", book(episodes=10))

    def interrupted(record: Record, _: Seconds) -> None:
        if record.episode == 6:
            raise KeyboardInterrupt  # no checkpoint since the start: all of it comes again

    with pytest.raises(KeyboardInterrupt):
        run.learn(watch=interrupted)
    run.learn()
    events = EventAccumulator(str(run.folder / "tensorboard"))
    events.Reload()
    steps = [event.step for event in events.Scalars("handrail/score")]
    assert steps == [record.steps for record in run.records()]
    averages = [event.value for event in events.Scalars("rollout/ep_rew_mean")]
    scores = np.cumsum([record.score for record in run.records()])
    np.testing.assert_allclose(averages, scores / np.arange(1, 11), rtol=1e-6)


def test_an_opened_run_is_the_same(whole: Run) -> None:
    again = Run.open(whole.folder)
    assert again.rulebook.settings == whole.rulebook.settings
    assert again.seed == 4
    agent = again.agent()
    assert agent.episodes == 30
    before = contents(whole)
    again.learn()  # nothing left to learn
    assert contents(whole) == before


def test_nothing_is_overwritten(whole: Run) -> None:
    with pytest.raises(InvalidRun, match=r"is not empty. Continue it with `handrail resume"):
        Run.create(whole.folder, book())


@pytest.mark.parametrize("after", [0, 1, 13, 29])
def test_a_stopped_run_continues_bit_for_bit(whole: Run, tmp_path: Path, after: int) -> None:
    run = Run.create(tmp_path / "run", book())
    seen = []
    run.learn(watch=lambda record, _: seen.append(record), stop=lambda: len(seen) > after)
    assert len(run.records()) == after + 1
    Run.open(run.folder).learn()
    assert contents(run) == contents(whole)


def test_a_run_of_several_episodes_an_update_is_checkpointed_between_updates(
    tmp_path: Path,
) -> None:
    settings = {"episodes": 12, "episodes_per_update": 4}
    whole, parts = (Run.create(tmp_path / name, book(**settings)) for name in ("a", "b"))
    whole.learn()
    for stop_at in (1, 6):
        parts.learn(
            stop=lambda limit=stop_at: len(parts.records()) > limit,  # type: ignore[misc]
            checkpoint_seconds=0.0,
        )
        assert len(parts.records()) % 4 == 0
    parts.learn()
    assert contents(parts) == contents(whole)


def _learn_in_a_child(folder: Path) -> int:
    """Fork: a child that has everything imported, so that a kill can hit any moment of the work."""
    child = os.fork()
    if child == 0:
        try:
            Run.open(folder).learn(checkpoint_seconds=0.002)
        finally:
            os._exit(0)
    return child


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_killed_at_any_moment_it_continues_bit_for_bit(whole: Run, tmp_path: Path) -> None:
    """SIGKILL at 60 random moments, over as many runs as it takes."""
    rng = np.random.default_rng(0)
    kills = finished = 0
    while kills < 60:
        run = Run.create(tmp_path / f"run-{finished}", book())
        while True:
            child = _learn_in_a_child(run.folder)
            time.sleep(float(rng.uniform(0.0, 0.2)))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            if not os.WIFSIGNALED(status):
                break
            kills += 1
            if kills >= 60:
                Run.open(run.folder).learn()
                break
        assert contents(run) == contents(whole)
        assert len((run.folder / TIMINGS).read_text().splitlines()) == 30
        finished += 1
    assert finished >= 1


def test_with_scaled_observations_it_continues_bit_for_bit(tmp_path: Path) -> None:
    scaled = book(episodes=8, network={"hidden": [16], "scale": {"position": 0.5}})
    whole, parts = (Run.create(tmp_path / name, scaled) for name in ("a", "b"))
    whole.learn()
    parts.learn(stop=lambda: len(parts.records()) > 3)
    Run.open(parts.folder).learn()
    assert contents(parts) == contents(whole)
    assert "policy.0.factor" in contents(whole)[1]


def test_a_run_of_before_scaling_was_a_layer_goes_on_without(tmp_path: Path) -> None:
    scaled = book(episodes=8, network={"hidden": [16], "scale": {"position": 0.5}})
    saved = make_agent(scaled).checkpoint()
    plain = make_agent(book(episodes=8, network={"hidden": [16], "scale": {}}))
    old = replace(saved, policy=plain.checkpoint().policy)
    layers = make_agent(scaled, old).policy.layers()
    assert layers is not None
    assert layers.front is None


def test_two_processes_cannot_learn_in_one_folder(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", book())

    def second(_: Record, __: Seconds) -> None:
        with pytest.raises(InvalidRun, match="Another process is learning in"):
            Run.open(run.folder).learn()

    run.learn(watch=second)
    assert len(run.records()) == 30


def test_a_failing_environment_keeps_everything_before(tmp_path: Path) -> None:
    text = TEXT.replace("Corridor-v0", "FailsInEpisode5-v0")
    run = Run.create(tmp_path / "run", parse(text, "failing"))
    with pytest.raises(
        EnvironmentFailure, match="Episode 5: The environment raised RuntimeError at step 1"
    ):
        run.learn()
    assert len(run.records()) == 5
    assert run.checkpoints()[-1].name == "episode-00000005.safetensors"
    assert run.agent().episodes == 5


def test_an_interrupted_episode_keeps_everything_before(tmp_path: Path) -> None:
    whole = Run.create(
        tmp_path / "whole", parse(TEXT.replace("Corridor-v0", "NeverFails-v0"), "whole")
    )
    whole.learn()
    text = TEXT.replace("Corridor-v0", "IsInterruptedInEpisode5-v0")
    run = Run.create(tmp_path / "run", parse(text, "interrupted"))
    for episode in (5, 10):  # when resumed, this environment counts its episodes anew
        with pytest.raises(
            KeyboardInterrupt,
            match=f"^Episode {episode}: Interrupted while waiting for step 1 of the environment Is",
        ):
            run.learn()
        assert run.checkpoints()[-1].name == f"episode-{episode:08d}.safetensors"
    resumed = (run.folder / METRICS).read_bytes()
    assert resumed == b"".join((whole.folder / METRICS).read_bytes().splitlines(True)[:10])


class FullDisk:
    """From the n-th write on, nothing more fits."""

    def __init__(self, n: int, error: int = errno.ENOSPC) -> None:
        self.left, self.error = n, error

    def __call__(self, *_: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(self.error, os.strerror(self.error))


def test_moved_or_copied_it_continues_bit_for_bit(whole: Run, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", book())
    run.learn(stop=lambda: len(run.records()) >= 7)
    copy = copy_of(run, tmp_path / "elsewhere" / "copy")
    run.folder.rename(tmp_path / "moved")
    moved = Run.open(tmp_path / "moved")
    for one in (copy, moved):
        one.learn()
        assert contents(one) == contents(whole)


@pytest.mark.parametrize("fits", [0, 1, 2, 5, 9])
def test_a_full_disk_stops_the_run_and_harms_nothing(
    whole: Run, tmp_path: Path, fits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run.create(tmp_path / "run", book())
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", FullDisk(fits))
        with pytest.raises(StorageFailure, match=r"No space left on device. Everything up to the"):
            run.learn(checkpoint_seconds=0.0)
    for checkpoint in run.checkpoints():
        load_state(checkpoint)
    run.learn()
    assert contents(run) == contents(whole)


def test_metrics_that_no_longer_fit(
    whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run.create(tmp_path / "run", book())
    write = FullDisk(7)

    def to_line(value: Any) -> bytes:
        write()
        return json.dumps(value).encode() + b"\n"

    with monkeypatch.context() as patch:
        patch.setattr("handrail.runs.metrics.to_line", to_line)
        with pytest.raises(StorageFailure, match="No space left"):
            run.learn()
    run.learn()
    assert contents(run) == contents(whole)


def test_a_folder_that_cannot_be_written() -> None:
    with pytest.raises(StorageFailure, match="No run can be started in /proc/nothing/run: No such"):
        Run.create("/proc/nothing/run", book())


class TestAKillWhileRunsAreStarted:
    """Nothing was learned yet, so the same command starts them again."""

    @pytest.mark.parametrize("written", range(4))
    def test_what_was_written_is_no_run_and_in_nobodys_way(
        self, tmp_path: Path, written: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        group, replaced = tmp_path / "group", FullDisk(written)

        def killed(*names: Any) -> None:
            replaced()
            rename(*names)

        rename = os.replace
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", killed)
            with contextlib.suppress(StorageFailure):
                start_runs(group, book(), seeds=2)
        (group / "seed-4" / f".{CONSTRAINTS}.4711").write_bytes(b"half")
        runs = start_runs(group, book(), seeds=2)
        assert [run.folder.name for run in runs] == ["seed-4", "seed-5"]
        assert [run.seed for run in open_runs(group)] == [4, 5]
        runs[0].learn()
        with pytest.raises(InvalidRun, match=r"seed-4 is not empty\. Continue it with"):
            start_runs(group, book(), seeds=2)

    @pytest.mark.parametrize("name", ["constraints.yaml", "checkpoints", "notes.txt"])
    def test_what_is_not_ours_stays(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_text("mine")
        for _ in range(2):
            with pytest.raises(InvalidRun, match="is not empty"):
                Run.create(tmp_path, book())
            assert (tmp_path / name).read_text() == "mine"
            assert [one.name for one in tmp_path.iterdir()] == [name]

    def test_nor_is_a_link_of_such_a_name_followed(self, tmp_path: Path) -> None:
        mine, theirs = tmp_path / "mine.txt", tmp_path / "theirs"
        mine.write_text("mine")
        theirs.mkdir()
        (theirs / ".lock").symlink_to(mine)
        with pytest.raises(InvalidRun, match="is not empty"):
            Run.create(theirs, book())
        assert mine.read_text() == "mine"

    def test_two_at_once_start_it_once(self, tmp_path: Path) -> None:
        (tmp_path / "run").mkdir()
        with (
            only_process(tmp_path / "run", "starting a run"),
            pytest.raises(InvalidRun, match="Another process is starting a run in"),
        ):
            Run.create(tmp_path / "run", book())
        assert not is_run(tmp_path / "run")

    def test_with_other_modules_it_is_another_run(self, tmp_path: Path) -> None:
        start_runs(tmp_path, book(), seeds=1, modules=["theirs"])
        with pytest.raises(InvalidRun, match="is not empty"):
            start_runs(tmp_path, book(), seeds=1)


def altered(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x11
    path.write_bytes(content)


def copy_of(run: Run, folder: Path) -> Run:
    shutil.copytree(run.folder, folder)
    return Run(folder, run.rulebook)


def test_a_damaged_checkpoint_names_the_one_before(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", book(episodes=6))
    run.learn(checkpoint_seconds=0.0)
    older, newest = run.checkpoints()
    before = older.read_bytes()
    altered(newest, 400)
    for asked in (run.learn, run.records, lambda: run.finished):
        with pytest.raises(InvalidRun, match=f"Delete it to continue from {older.name}"):
            asked()
    assert older.read_bytes() == before
    newest.unlink()
    assert run.learn().episodes == 6
    for checkpoint in run.checkpoints():
        altered(checkpoint, 50)
    run.checkpoints()[0].unlink()
    with pytest.raises(InvalidRun, match="There is no older one: start the run again"):
        run.agent()


def test_altered_metrics_are_noticed(whole: Run, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path / "run")
    altered(run.folder / METRICS, 1000)
    with pytest.raises(InvalidRun, match="not what the checkpoint was made with"):
        run.learn()
    (run.folder / METRICS).write_bytes(b"")
    with pytest.raises(InvalidRun, match="altered or cut short"):
        run.learn()


def test_every_altered_byte_of_the_configuration_is_noticed(whole: Run, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path / "run")
    path = run.folder / CONFIGURATION
    original = path.read_bytes()
    for place in range(len(original)):
        altered(path, place)
        with pytest.raises(InvalidRun, match=r"configuration.json (is damaged|was altered)"):
            Run.open(run.folder)
        path.write_bytes(original)
    assert Run.open(run.folder).seed == 4


def test_a_run_keeps_its_constraints(whole: Run, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path / "run")
    (run.folder / CONSTRAINTS).write_text(TEXT.replace("0.9}", "0.8}"))
    with pytest.raises(InvalidRun, match=r"altered after the run was started. A run keeps its"):
        Run.open(run.folder)
    (run.folder / CONSTRAINTS).unlink()
    with pytest.raises(InvalidRun, match="cannot be read"):
        Run.open(run.folder)


def test_a_foreign_folder_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InvalidRun, match=r"is not a run: it has no configuration.json"):
        Run.open(tmp_path)
    (tmp_path / CONFIGURATION).write_text("[]")
    with pytest.raises(HandrailError, match="is damaged"):
        Run.open(tmp_path)


def test_a_line_that_was_being_written_is_left_out(whole: Run, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path / "run")
    with (run.folder / METRICS).open("ab") as file:
        file.write(b'{"episode": 30, "sco')
    assert len(run.records()) == 30
    for checkpoint in run.checkpoints():
        checkpoint.unlink()
    (run.folder / METRICS).write_bytes(b"nonsense\n")
    with pytest.raises(InvalidRun, match="line 1 is not a record"):
        run.records()


class TestFoldersOfSomebodyElse:
    """What a folder asks for by its form: nothing outside of it is touched."""

    @pytest.mark.parametrize(
        "name",
        [
            *(".lock", METRICS, TIMINGS, CONFIGURATION, CONSTRAINTS, "certificate.json"),
            *("checkpoints/episode-00000099.safetensors", "pictures/score.png", "policy.onnx"),
            *("checkpoints", "tensorboard", "pictures", "report"),
        ],
    )
    def test_no_link_is_followed(self, whole: Run, tmp_path: Path, name: str) -> None:
        run = copy_of(whole, tmp_path / "theirs")
        mine = tmp_path / "mine"
        link = run.folder / name
        if link.is_dir() or "." not in name:
            shutil.copytree(link, mine) if link.is_dir() else mine.mkdir()
            shutil.rmtree(link, ignore_errors=True)
        else:
            mine.write_bytes(link.read_bytes() if link.exists() else b"ten years of work")
            link.parent.mkdir(exist_ok=True)
            link.unlink(missing_ok=True)
        link.symlink_to(mine)
        before = {one: one.read_bytes() for one in mine.rglob("*")} if mine.is_dir() else {}
        content = b"" if mine.is_dir() else mine.read_bytes()
        for read in (Run.open, open_runs):
            with pytest.raises(InvalidRun, match=f"{name} is a symbolic link. Handrail follows no"):
                read(run.folder)
        assert before == ({one: one.read_bytes() for one in mine.rglob("*")} if before else {})
        assert not content or mine.read_bytes() == content

    def test_nor_one_of_a_group(self, whole: Run, tmp_path: Path) -> None:
        group = tmp_path / "group"
        copy_of(whole, group / "seed-4")
        assert [run.seed for run in open_runs(group)] == [4]
        for name, target in (("seed-5", whole.folder), ("report", tmp_path)):
            (group / name).symlink_to(target)
            with pytest.raises(InvalidRun, match=f"group/{name} is a symbolic link"):
                open_runs(group)
            with pytest.raises(InvalidRun, match=f"group/{name} is a symbolic link"):
                start_runs(group, book(seed=7), seeds=1)
            (group / name).unlink()

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
    def test_a_pipe_is_not_waited_for(self, whole: Run, tmp_path: Path) -> None:
        run = copy_of(whole, tmp_path / "theirs")
        (run.folder / METRICS).unlink()
        os.mkfifo(run.folder / METRICS)
        with pytest.raises(InvalidRun, match=r"metrics.jsonl is not a regular file"):
            Run.open(run.folder)

    def test_a_file_that_is_also_elsewhere_stays_there_as_it_is(
        self, whole: Run, tmp_path: Path
    ) -> None:
        """Backups by hard links: `cp --link`, rsnapshot."""
        shutil.copytree(whole.folder, tmp_path / "copy", copy_function=os.link)
        before = contents(whole)
        Run.open(tmp_path / "copy").with_episodes(33).learn()
        assert contents(whole) == before
        assert Run.open(whole.folder).rulebook.settings.episodes == 30

    def test_modules_are_named_and_not_imported(self, tmp_path: Path) -> None:
        text = TEXT.replace("Corridor-v0", "TheirCorridor-v0")  # of a module that is not here now
        gym.register("TheirCorridor-v0", entry_point="tests.support.environments:Corridor")
        book = with_settings(parse(text, "theirs"), episodes=2)
        run = Run.create(tmp_path / "run", book, modules=["their_module.environments"])
        assert Run.open(run.folder).modules == ("their_module.environments",)
        run.learn()
        del gym.registry["TheirCorridor-v0"]
        with pytest.raises(
            InvalidRulebook,
            match=r"started with --import their_module.environments: if you trust that code",
        ):
            Run.open(run.folder).agent()
        assert "their_module" not in sys.modules
        sealed = read_sealed(run.folder / CONFIGURATION)
        write_sealed(run.folder / CONFIGURATION, {**sealed, "modules": ["os; rm"]})
        with pytest.raises(InvalidRun, match=r"is no configuration of a run: modules.0: "):
            Run.open(run.folder)


def test_metrics_whose_last_checkpoint_was_not_written(whole: Run, tmp_path: Path) -> None:
    """A kill between the last line and the last checkpoint."""
    run = copy_of(whole, tmp_path / "run")
    run.checkpoints()[-1].unlink()
    assert len(run.records()) == 30
    assert not run.finished
    assert run.learn().episodes == 30
    assert run.finished
    assert contents(run) == contents(whole)


def test_lost_checkpoints_are_no_reason_to_begin_again(whole: Run, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path / "run")
    for path in run.checkpoints():
        path.unlink()
    before = (run.folder / METRICS).read_bytes()
    with pytest.raises(
        InvalidRun, match=r"has recorded 30 episodes, but has no checkpoint of them: what was lear"
    ):
        run.learn()
    with pytest.raises(InvalidRun, match="has no checkpoint of them"):
        run.with_episodes(50)
    assert Run.open(run.folder).rulebook.settings.episodes == 30
    assert (run.folder / METRICS).read_bytes() == before
    (run.folder / METRICS).unlink()  # as the message says
    run.learn()
    assert contents(run) == contents(whole)


def test_a_checkpoint_under_another_name(whole: Run, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path / "run")
    newest = run.checkpoints()[-1]
    newest.rename(newest.with_name("episode-00000031.safetensors"))
    with pytest.raises(InvalidRun, match=r"is of 30 episodes and of metrics of 30, which is not w"):
        run.learn()


def test_a_new_goal_waits_for_whoever_learns(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", book(episodes=3))

    def second(_: Record, __: Seconds) -> None:
        with pytest.raises(InvalidRun, match="Another process is learning in"):
            Run.open(run.folder).with_episodes(7)

    run.learn(watch=second)
    assert Run.open(run.folder).rulebook.settings.episodes == 3
    with pytest.raises(InvalidArgument, match="has learned from 3 episodes already, so 2 cannot"):
        run.with_episodes(2)
    assert Run.open(run.folder).rulebook.settings.episodes == 3


def test_what_a_killed_process_was_writing_is_swept_away(whole: Run, tmp_path: Path) -> None:
    run = copy_of(whole, tmp_path / "run")
    left = [
        run.folder / f".{METRICS}.4711",
        run.folder / "checkpoints" / ".episode-00000031.safetensors.4711",
    ]
    kept = [run.folder / ".notes", run.folder / ".certificate.json.4711"]  # whose writer may live
    for path in (*left, *kept):
        path.write_bytes(b"half")
    run.learn()
    assert [path.exists() for path in (*left, *kept)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"constraints": 3}, "constraints: expected a string"),
        ({"settings": []}, "settings: expected a dictionary"),
        ({"surprise": 1}, "surprise: "),
        ({"name": None}, "name: expected a string"),
    ],
)
def test_a_configuration_that_was_sealed_again(
    whole: Run, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    run = copy_of(whole, tmp_path / "run")
    sealed = read_sealed(run.folder / CONFIGURATION)
    write_sealed(run.folder / CONFIGURATION, {**sealed, **change})
    with pytest.raises(InvalidRun, match=f"is no configuration of a run: {message}"):
        Run.open(run.folder)


@pytest.mark.parametrize("name", bundled())
def test_every_bundled_file_is_obeyed_from_the_first_step_on(name: str) -> None:
    agent = make_agent(load_rulebook(name))
    assert agent.first_enforcement is not None
    assert agent.first_enforcement.worst_violation <= 1e-6
    records = agent.learn(episodes=2)
    assert max(record.violation_before or 0.0 for record in records) <= 1e-6
    assert max(record.violation_after or 0.0 for record in records) <= 1e-6


class TestRunsOfBefore:
    """A run that was written before packages were made of the modules goes on as it would have."""

    @pytest.fixture
    def run(self, tmp_path: Path) -> Run:
        shutil.copytree(DATA / "before_the_house" / "run", tmp_path / "run")
        return Run.open(tmp_path / "run")

    def test_it_shows_what_it_recorded(self, run: Run) -> None:
        records = run.records()
        assert [one.episode for one in records] == list(range(6))
        assert records[-1].steps == sum(one.length for one in records)
        assert max(one.violation_before or 0.0 for one in records) <= 1e-6

    def test_its_policy_plays_and_obeys(self, run: Run) -> None:
        agent = run.agent()
        assert agent.episodes == 6
        evaluation = agent.evaluate(episodes=3)
        assert evaluation.satisfied
        assert min(evaluation.lengths) > 5
        assert hr.evaluate(agent, run.rulebook.make_environment(), run.rulebook).satisfied

    def test_it_plays_as_it_would_have_and_goes_on(self, run: Run) -> None:
        """Its next episode is that of then; updates are held with less influence since."""
        run.with_episodes(9).learn()
        text = (DATA / "before_the_house" / "continued.jsonl").read_text(encoding="utf-8")
        then = json.loads(text.splitlines()[0])
        found = Run.open(run.folder).records()
        assert [one.influence is None for one in found] == [True] * 6 + [False] * 3
        assert max(one.violation_before or 0.0 for one in found) <= 1e-6
        now = found[6].to_dict()
        for key in ("episode", "update", "score", "length", "steps", "terminated"):
            assert now[key] == then[key], key
        for key in ("batch_loss", "violation_before"):
            # Floats differ in the last bits from processor to processor; counts do not.
            assert now[key] == pytest.approx(then[key], rel=1e-6), key

    def test_its_certificate_is_proven_again(self, run: Run) -> None:
        policy = run.agent().policy
        certificate, constraints = run.folder / "certificate.json", run.rulebook.constraints
        found = verify_certificates(certificate, policy, constraints)
        assert [one.status for one in found] == ["certified", "certified"]
        run.with_episodes(7).learn()
        learned = run.agent().policy
        with pytest.raises(
            hr.errors.InvalidCertificate, match=r"is about other weights .* Prove it again\."
        ):
            verify_certificates(certificate, learned, constraints)

    def test_it_does_not_say_by_which_versions(self, run: Run) -> None:
        configuration = read_sealed(run.folder / CONFIGURATION)
        assert "versions" not in configuration
        run.with_episodes(7)
        assert read_sealed(run.folder / CONFIGURATION)["settings"]["episodes"] == 7
        assert Run.open(run.folder).rulebook.settings.episodes == 7


def test_a_run_says_what_it_was_started_with(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", book(episodes=2))
    versions = read_sealed(run.folder / CONFIGURATION)["versions"]
    assert versions == {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "gymnasium": gym.__version__,
    }
    altered = {**read_sealed(run.folder / CONFIGURATION), "versions": {"torch": "0.1"}}
    write_sealed(run.folder / CONFIGURATION, altered)
    run.with_episodes(3)  # another goal is no other start
    assert read_sealed(run.folder / CONFIGURATION)["versions"] == {"torch": "0.1"}
    assert Run.open(run.folder).rulebook.settings.episodes == 3


def test_noise_that_is_learned_survives(tmp_path: Path) -> None:
    text = """
environment: {id: Pendulum-v1, max_episode_steps: 30}
observations: [x, y, speed]
actions: {torque: [-2, 2]}
constraints:
  - {name: a, region: {x: [0.9, 1], y: [-0.1, 0.1], speed: 0}, require: P(torque >= -1) >= 0.9}
settings: {episodes: 6, step_size: 1e-3, network: {hidden: [16], std: 0.1, std_range: [0.5, 2]}}
"""
    whole, parted = (Run.create(tmp_path / one, parse(text, "p")) for one in ("whole", "parted"))
    whole.learn()
    parted.learn(stop=lambda: len(parted.records()) == 3)
    parted.learn()
    assert contents(whole) == contents(parted)
    policy = parted.agent().policy
    assert isinstance(policy, hr.GaussianPolicy)
    assert [end.tolist() for end in policy.std_range] == [[0.1], [0.4]]
    assert policy.std[0] != 0.2
    assert contents(whole)[2]["std"] == policy.std.tolist()
