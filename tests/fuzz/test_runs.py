"""Folders of runs that somebody altered: refused in words, or what is left of them obeys.

A case takes one or two files of a small run and damages them, replaces them by something that is no
file, or changes their content and seals it again. Then everything reads the folder. Whatever
happens, only errors of ours come out, in time, and nothing outside of the folder has changed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from handrail._storage import load_state, read_sealed, save_state, write_sealed
from handrail.errors import HandrailError
from handrail.rulebook import parse, with_settings
from handrail.runs import Run, open_policy, open_runs
from handrail.runs.metrics import METRICS

TEXT = """
environment: CartPole-v1
observations: [x, x_dot, phi, phi_dot]
actions: [left, right]
constraints:
  - {name: p, where: {x: 0, x_dot: 0, phi: 0.2, phi_dot: 0}, require: right >= 0.6}
  - {name: q, region: {x: [-1, 1], x_dot: 0, phi: [0.1, 0.12], phi_dot: 0}, require: right >= 0.7}
settings: {episodes: 2, network: {hidden: [8]}, selection: {strategy: everywhere, prove: true}}
"""
MINE = "ten years of work"
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**64, 10**400, 0.5, 1e308, "", "x", "\x1b[31m", "../../mine"),
    *([], {}, [[]], [None], {"a": {}}, ["x"] * 3, {"shape": "box"}, [{"kind": "AtLeast"}]),
]
SECONDS = 10.0


class TooSlow(BaseException):
    """Nothing catches it by chance."""


@contextmanager
def bounded_in_time() -> Iterator[None]:
    def late(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlow

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = Run.create(tmp_path_factory.mktemp("genuine") / "seed-0", parse(TEXT, "fuzzed"))
    run.learn()
    return run.folder


def flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def cut(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content) + 1)])


def lengthen(path: Path, chance: random.Random) -> None:
    with path.open("ab") as file:
        file.write(chance.choice([b"\0", b"\n", b"{}\n", b"[" * 100_000, chance.randbytes(50)]))


def overwrite(path: Path, chance: random.Random) -> None:
    nonsense = [b"", b"null", b"[]", b"{}", b"\xff\xfe", b"[" * 10**5, b'{"sha256": 1e999}']
    path.write_bytes(chance.choice([*nonsense, chance.randbytes(100)]))


def remove(path: Path, chance: random.Random) -> None:
    path.unlink()


def link(path: Path, chance: random.Random) -> None:
    target = chance.choice([run_of(path).parents[1] / "mine", path.parent, Path("/dev/zero"), path])
    path.unlink()
    path.symlink_to(target)


def no_file(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.mkdir() if chance.random() < 0.5 or not hasattr(os, "mkfifo") else os.mkfifo(path)


def exchange(path: Path, chance: random.Random) -> None:
    other = chance.choice(files(run_of(path)))
    content = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)


def rename(path: Path, chance: random.Random) -> None:
    names = ["episode-00000007.safetensors", "episode-x.safetensors", "episode-.safetensors"]
    path.rename(path.with_name(chance.choice([*names, f".{path.name}.1", ".lock", METRICS])))


def seal_again(path: Path, chance: random.Random) -> None:
    """Another content, as genuine as ours by its form."""
    if path.suffix == ".json":
        values = read_sealed(path)
        change(values, chance)
        write_sealed(path, values)
    elif path.suffix == ".safetensors":
        tensors, state = load_state(path)
        if chance.random() < 0.5:
            change(state, chance)
        else:
            change_tensor(tensors, chance)
        save_state(path, tensors, state)
    else:
        change_line(path, chance)


def change(values: dict[str, Any], chance: random.Random) -> None:
    """One entry, at any depth."""
    inside: Any = values
    while True:
        keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        if not keys:
            return
        key = chance.choice(keys)
        deeper = inside[key]
        if isinstance(deeper, dict | list) and deeper and chance.random() < 0.7:
            inside = deeper
            continue
        if chance.random() < 0.2:
            del inside[key]
        else:
            inside[key] = chance.choice(VALUES)
        return


def change_tensor(tensors: dict[str, Any], chance: random.Random) -> None:
    name = chance.choice(sorted(tensors))
    array = tensors[name]
    ways: list[Callable[[], Any]] = [
        lambda: np.full_like(array, np.nan if array.dtype.kind == "f" else 1),
        lambda: np.zeros((0, *array.shape[1:]), array.dtype),
        lambda: np.zeros((3, 2, 2)),
        lambda: array.astype(np.float32),
        array.reshape(-1)[::-1].copy,
        lambda: array * 1e9 if array.dtype.kind == "f" else array + 100,
    ]
    if chance.random() < 0.2:
        del tensors[name]
    else:
        tensors[name] = chance.choice(ways)()


def change_line(path: Path, chance: random.Random) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    if not lines:
        return
    number = chance.randrange(len(lines))
    try:
        values = json.loads(lines[number])
        change(values, chance)
        lines[number] = json.dumps(values).encode() + b"\n"
    except (ValueError, TypeError):
        lines.append(lines[number])
    path.write_bytes(b"".join(lines))


WAYS = [
    *(flip, cut, lengthen, overwrite, remove, link, no_file, exchange, rename),
    *([seal_again] * 8),
]


def run_of(path: Path) -> Path:
    """The folder of the run that a file is in."""
    return next(one for one in path.parents if one.name == "seed-0")


def files(folder: Path) -> list[Path]:
    return [one for one in sorted(folder.rglob("*")) if one.is_file() and not one.is_symlink()]


def read_everything(folder: Path, episodes: int) -> None:
    """And learn on until so many."""
    run = Run.open(folder)
    open_runs(folder.parent)
    run.records()
    agent = run.agent()
    assert agent.evaluate(episodes=1).satisfied
    policy = open_policy(folder, "a case").policy
    assert agent.policy.outputs([[0.0, 0.0, 0.2, 0.0]])[0, 1] >= 0.6 - 1e-6
    assert policy.outputs([[0.0, 0.0, 0.2, 0.0]])[0, 1] >= 0.6 - 1e-6
    learned = run.with_episodes(max(episodes, len(run.records()))).learn()
    assert learned.evaluate(episodes=1).satisfied
    assert Run.open(folder).finished


def attempt(genuine: Path, place: Path, seed: int, episodes: int = 4) -> bool:
    """Whether the folder was refused."""
    chance = random.Random(seed)
    shutil.rmtree(place, ignore_errors=True)
    folder = place / "group" / "seed-0"
    shutil.copytree(genuine, folder)
    (place / "mine").write_text(MINE)
    for _ in range(chance.choice([1, 1, 2])):
        present = files(folder)
        if present:
            try:
                chance.choice(WAYS)(chance.choice(present), chance)
            except (OSError, HandrailError, ValueError):
                continue  # the second change does not fit the first
    try:
        with bounded_in_time():
            read_everything(folder, episodes)
    except HandrailError:
        return True
    finally:
        assert (place / "mine").read_text() == MINE
        assert sorted(one.name for one in place.iterdir()) == ["group", "mine"]
    return False


@pytest.mark.parametrize("part", range(4))
def test_a_run_that_was_altered(genuine: Path, tmp_path: Path, part: int) -> None:
    refused = sum(attempt(genuine, tmp_path / "case", seed, 3) for seed in range(part, 200, 4))
    assert refused >= 20  # of 50: the rest were of no consequence


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_runs_that_were_altered(genuine: Path, tmp_path: Path, part: int) -> None:
    seeds = range(1000 + part, 3000, 20)
    assert sum(attempt(genuine, tmp_path / "case", seed) for seed in seeds) >= 40


def test_what_is_not_altered_is_read(genuine: Path, tmp_path: Path) -> None:
    shutil.copytree(genuine, tmp_path / "group" / "seed-0")
    read_everything(tmp_path / "group" / "seed-0", 4)
    longer = Run.open(tmp_path / "group" / "seed-0")
    assert with_settings(longer.rulebook, episodes=2).settings == parse(TEXT, "fuzzed").settings
