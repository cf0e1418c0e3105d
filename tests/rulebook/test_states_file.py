"""States in array files: read safely, refused in words, and kept by whoever keeps the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from typer.testing import CliRunner

import handrail as hr
from handrail.cli.app import app
from handrail.errors import InvalidRulebook
from handrail.rulebook import parse
from handrail.sb3 import Handrail, policy_of
from tests.support.constraint_files import VALIDATOR
from tests.support.sb3_models import Numbers

SHAPE = (36, 36, 3)
FRAMES = gym.spaces.Box(0, 255, SHAPE, np.uint8)
RNG = np.random.default_rng(0)
RIGHT, LEFT = (RNG.integers(0, 256, (3, *SHAPE), dtype=np.uint8) for _ in range(2))

BOARD = """
environment: Handrail/Boards-v0
observations: [a, b, c, d]
actions: [left, right]
constraints:
  - {name: recorded, where: {states: boards.npy}, require: right >= 0.9}
settings: {episodes: 2, network: {hidden: [16]}}
"""

IMAGES = """
environment: Handrail/Recorded-v0
observations: {frame: [36, 36, 3]}
actions: [left, right]
constraints:
  - {name: go right, where: {states: right.npy}, require: right >= 0.9}
  - name: go left
    where: [{states: "left.npz:one"}, {states: "left.npz:two"}]
    require: left >= 0.8
settings: {episodes: 2, baseline: time_average, network: {hidden: [16], scale: auto}}
"""


@pytest.fixture(autouse=True)
def environments() -> Iterator[None]:
    two = gym.spaces.Discrete(2)
    board = gym.spaces.Box(-1.0, 1.0, (2, 2), np.float32)
    gym.register("Handrail/Recorded-v0", lambda **_: Numbers(observations=FRAMES, actions=two))
    gym.register("Handrail/Boards-v0", lambda **_: Numbers(observations=board, actions=two))
    yield
    for name in ("Recorded", "Boards"):
        gym.registry.pop(f"Handrail/{name}-v0")


@pytest.fixture
def frames(tmp_path: Path) -> Path:
    np.save(tmp_path / "right.npy", RIGHT)
    np.savez(tmp_path / "left.npz", one=LEFT[:1], two=LEFT[1:])
    file = tmp_path / "frames.yaml"
    file.write_text(IMAGES)
    return file


def test_states_of_a_file_are_those_of_the_constraint(frames: Path) -> None:
    book = hr.load_rulebook(frames)
    VALIDATOR.validate(book.source.data)
    right, left = book.constraints
    assert np.array_equal(right.states, RIGHT)
    assert np.array_equal(left.states, LEFT)
    assert book.observations == ()
    assert dict(book.parts) == {"frame": SHAPE}
    assert book.sentences == (
        "go right: right >= 0.9 at 3 states of right.npy",
        "go left: left >= 0.8 at 3 states of left.npz:one, left.npz:two",
    )
    assert "observations: frame 36 × 36 × 3" in str(book)
    assert sorted(book.arrays) == ["left.npz", "right.npy"]
    assert parse(book.text, book.name, book.arrays).says_the_same_as(book)


def test_of_named_numbers_a_file_may_have_the_axes_of_the_environment(tmp_path: Path) -> None:
    """And stand beside blocks of values."""
    boards = np.array([[[0.1, 0.2], [0.3, 0.4]], [[0.5, 0.6], [0.7, 0.8]]])
    np.save(tmp_path / "boards.npy", boards)
    both = BOARD.replace("{states: boards.npy}", "[{states: boards.npy}, {a: 0, others: 1}]")
    book = parse(both, "board.yaml", tmp_path)
    assert book.constraints[0].states.tolist() == [
        [0.1, 0.2, 0.3, 0.4],
        [0.5, 0.6, 0.7, 0.8],
        [0, 1, 1, 1],
    ]
    assert book.sentences == (
        "recorded: right >= 0.9 at 3 states of boards.npy (a from 0 to 0.5, b from 0.2 to 1, "
        "c from 0.3 to 1, d from 0.4 to 1)",
    )
    agent = hr.make_agent(book)
    assert hr.measure(agent.policy, book).worst_violation <= 1e-6


def _refused(text: str, folder: Path) -> str:
    with pytest.raises(InvalidRulebook) as caught:
        parse(text, "board.yaml", folder)
    return str(caught.value)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (np.zeros((3, 5)), r"boards.npy holds float64 numbers of shape \(3, 5\), but states of "
         r"this file have the shape \(n, 4\): n states, at least one, of the 4 observations that "
         "it names"),
        (np.zeros(4), r"shape \(4,\), .* One state is an array of one: state\[None\]"),
        (np.zeros((0, 4)), r"of shape \(0, 4\)"),
        (np.zeros((1, 4), dtype=complex), "holds complex128. States are numbers: floats, or whole"),
        (np.array([["a", "b", "c", "d"]]), "boards.npy holds <U1. States are numbers"),
        (np.array([[np.nan, 0, 0, 0]]), "state 0 is not finite"),
        (np.zeros((2, 4)), "state 1 repeats state 0"),
    ],
)  # fmt: skip
def test_arrays_that_are_no_states_are_refused(tmp_path: Path, states: Any, message: str) -> None:
    np.save(tmp_path / "boards.npy", states)
    found = _refused(BOARD, tmp_path)
    assert re.search(message, found)
    assert found.startswith("board.yaml, line 6, constraints[0].where")


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "boards.npy", np.array([[Trap()]], dtype=object), allow_pickle=True)
    assert "boards.npy holds objects, which are programs to NumPy" in _refused(BOARD, tmp_path)


class Trap:
    def __reduce__(self) -> Any:
        return pytest.fail, ("the pickle was run",)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    missing = _refused(BOARD, tmp_path)
    assert re.search(r"states: there is no file .*boards.npy. Put it there .*numpy.save", missing)
    (tmp_path / "board.npy").touch()
    assert "Did you mean 'board.npy'?" in _refused(BOARD, tmp_path)
    file = tmp_path / "boards.npy"
    file.mkdir()
    assert f"{file} is no file." in _refused(BOARD, tmp_path)
    file.rmdir()
    file.write_text("a picture")
    assert "boards.npy is no array file of NumPy" in _refused(BOARD, tmp_path)
    np.save(file, np.zeros((9, 4)))
    file.write_bytes(file.read_bytes()[:-8])
    assert "an array of shape (9, 4) and float64 has 288 bytes, but this one 280" in _refused(
        BOARD, tmp_path
    )
    absolute = BOARD.replace("boards.npy", str(tmp_path / "boards.npy"))
    assert "is an absolute path, which leads nowhere on another machine" in _refused(
        absolute, tmp_path
    )
    assert "ends with .npy (numpy.save) or .npz, but got 'boards.csv'" in _refused(
        BOARD.replace(".npy", ".csv"), tmp_path
    )
    assert "holds one array, which has no name. Leave out :a." in _refused(
        BOARD.replace("boards.npy", '"boards.npy:a"'), tmp_path
    )


def test_a_header_that_promises_more_than_there_is_reserves_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "boards.npy", np.zeros((2, 4)))
    content = (tmp_path / "boards.npy").read_bytes()
    larger = content.replace(b"(2, 4), }            ", b"(200000000000, 4), } ")
    assert len(larger) == len(content)
    (tmp_path / "boards.npy").write_bytes(larger)
    assert "has 6,400,000,000,000 bytes, but this one 64." in _refused(BOARD, tmp_path)


def test_archives_name_their_array(tmp_path: Path) -> None:
    text = BOARD.replace("boards.npy", "boards.npz")
    np.savez(tmp_path / "boards.npz", only=np.eye(4))
    assert np.array_equal(parse(text, "b", tmp_path).constraints[0].states, np.eye(4))
    np.savez(tmp_path / "boards.npz", one=np.eye(4), two=np.eye(4))
    assert "boards.npz holds 2 arrays (one, two). Say which one: boards.npz:one." in _refused(
        text, tmp_path
    )
    misspelt = text.replace("boards.npz", '"boards.npz:on"')
    assert "Did you mean 'one'?" in _refused(misspelt, tmp_path)
    (tmp_path / "boards.npz").write_bytes(b"no archive")
    assert "boards.npz is no .npz file, or it is damaged" in _refused(text, tmp_path)


def test_what_needs_names_is_refused_of_images(frames: Path) -> None:
    folder = frames.parent

    def said(old: str, new: str) -> str:
        return _refused(IMAGES.replace(old, new), folder)

    where = "where: {states: right.npy}"
    assert (
        "the numbers of frame 36 × 36 × 3 have no names to write states with. Give the states in "
        "an array file: where: {states: frames.npy}." in said(where, "where: {others: 0}")
    )
    assert "no names to write a region with" in said(where, "region: {others: 0}")
    assert "unknown action or observation 'phi'" in said("right >= 0.9", "right >= phi")
    assert "unknown key 'x' in where. Known here: states." in said(
        where, "where: {states: right.npy, x: 0}"
    )
    assert "Put the channels first: numpy.moveaxis(states, -1, 1)" in said(
        "[36, 36, 3]", "[3, 36, 36]"
    )
    assert "expected at most 1,000,000 numbers in an observation" in said(
        "[36, 36, 3]", "[5000, 5000, 3]"
    )
    table = BOARD.replace("require:", 'table: "a\\n1", require:')
    np.save(folder / "boards.npy", np.eye(4))
    assert "a table has nothing to add" in _refused(table, folder)


def test_another_shape_than_the_environment_has_is_refused(frames: Path) -> None:
    np.save(frames.parent / "right.npy", np.moveaxis(RIGHT, -1, 1))
    np.savez(frames.parent / "left.npz", one=np.moveaxis(LEFT[:1], -1, 1), two=LEFT[:0])
    first = IMAGES.replace("[36, 36, 3]", "[3, 36, 36]").split("  - name: go left")[0]
    book = parse(first, "frames.yaml", frames.parent)
    message = (
        "frame 3 × 36 × 36, but Handrail/Recorded-v0 observes 36 × 36 × 3 numbers. Give the sha"
    )
    with pytest.raises(InvalidRulebook, match=re.escape(message)):
        book.make_environment()


def test_images_that_were_scaled_are_refused(frames: Path) -> None:
    np.save(frames.parent / "right.npy", RIGHT / 255.0)
    message = r"numbers such as 0\..* but uint8 is observed, whole numbers from 0 to 255\. Save the"
    with pytest.raises(InvalidRulebook, match=message):
        hr.make_agent(hr.load_rulebook(frames))


def test_more_frames_than_a_file_may_have_are_refused(frames: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("handrail.rulebook.states_entry.MAX_NUMBERS", 5 * 36 * 36 * 3)
    message = r"3 states, 6 with those before; .* at most 5 together\. Keep fewer of them"
    with pytest.raises(InvalidRulebook, match=message):
        hr.load_rulebook(frames)


def test_a_model_with_convolutions_is_held_at_frames_as_the_environment_sees_them(
    frames: Path,
) -> None:
    env = Numbers(observations=FRAMES, actions=gym.spaces.Discrete(2))
    network = {
        "net_arch": {"pi": [32], "vf": []},
        "features_extractor_kwargs": {"features_dim": 16},
    }
    model = PPO("CnnPolicy", env, n_steps=8, batch_size=8, n_epochs=1, seed=0, device="cpu",
                policy_kwargs=network | {"ortho_init": False})  # fmt: skip
    rail = Handrail(frames)
    model.learn(8, callback=rail)
    assert rail.worst_violation <= 1e-5
    assert hr.measure(policy_of(model), frames).worst_violation <= 1e-5
    for seen, action, bound in ((RIGHT, 1, 0.9), (LEFT, 0, 0.8)):  # as Stable-Baselines3 is asked
        tensor, _ = model.policy.obs_to_tensor(seen)
        drawn: Any = model.policy.get_distribution(tensor).distribution
        chances = drawn.probs[:, action]
        assert chances.min().item() >= bound - 1e-4
    played = hr.evaluate(model, env, frames, episodes=1)
    assert played.satisfied


def test_a_run_keeps_its_frames(frames: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """Whatever becomes of the original, and wherever the run goes."""
    monkeypatch.chdir(tmp_path)
    book = hr.load_rulebook(frames)
    run = hr.Run.create(tmp_path / "runs" / "frames" / "seed-0", book)
    run.learn()
    for name in ("right.npy", "left.npz"):
        (tmp_path / name).write_bytes(b"something else")
    moved = (tmp_path / "runs").rename(tmp_path / "elsewhere") / "frames" / "seed-0"
    opened = hr.Run.open(moved)
    assert opened.rulebook.says_the_same_as(book)
    assert opened.rulebook.text == IMAGES
    longer = opened.with_episodes(3)
    longer.learn()
    assert len(longer.records()) == 3
    assert hr.measure(longer.agent().policy, longer.rulebook).worst_violation <= 1e-6

    def answer(*words: str) -> str:
        result = CliRunner().invoke(app, [*words])
        assert result.exit_code == 0, result.output
        return result.output

    assert "episode.png" in answer("show", str(moved))
    page = (moved / "pictures" / "index.html").read_text()
    assert "No map: the numbers of frame 36" in page
    assert "0 of 6" in answer("evaluate", str(moved), "--episodes", "1")
    assert "2 of 2 certified" in answer("prove", str(moved))
    answer("export", str(moved), "--format", "numpy", "--out", "policy.npz")
    assert "2 of 2 certified" in answer("prove", "policy.npz")

    kept = next((moved / "states").glob("*.npy"))
    kept.write_bytes(kept.read_bytes()[:-1] + b"!")
    with pytest.raises(hr.errors.InvalidRun, match="was altered after the run was started"):
        hr.Run.open(moved)
    kept.unlink()
    with pytest.raises(hr.errors.InvalidRun, match="It holds the states of right"):
        hr.Run.open(moved)


def test_runs_of_one_text_with_other_frames_are_not_mixed(frames: Path) -> None:
    first = hr.load_rulebook(frames)
    np.save(frames.parent / "right.npy", RIGHT[:2])
    assert not hr.load_rulebook(frames).says_the_same_as(first)


def test_a_check_of_the_command_line_speaks_of_the_file(frames: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(frames)])
    assert result.exit_code == 0, result.output
    assert "go right: right >= 0.9 at 3 states of right.npy" in result.output
    assert "All constraints can hold together" in result.output


def test_there_is_no_plane_through_images(frames: Path) -> None:
    with pytest.raises(hr.errors.InvalidArgument, match="frame 36 × 36 × 3 have no names: there is "
                       "no map"):  # fmt: skip
        hr.report.Plane.of(hr.load_rulebook(frames))
