"""A run is a folder that survives: configuration, constraint file, metrics, checkpoints, pictures.

Every file is written under a temporary name and renamed, or appended to line by line, so whatever
kills the process, the folder holds a state from which `resume` continues bit for bit: the starts of
an episode depend on the seed and its number alone, so episodes after the newest checkpoint are
simply played again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, final

import gymnasium as gym
from numpy.typing import NDArray

from handrail._storage import (
    FORMAT,
    check_format,
    load_state,
    only_process,
    read_sealed,
    save_state,
    write_atomically,
    write_sealed,
)
from handrail._version import VERSION
from handrail.errors import HandrailError, InvalidArgument, InvalidRun, StorageFailure
from handrail.learning import Record, Reinforce, Seconds
from handrail.policies import CategoricalPolicy, GaussianPolicy, Policy
from handrail.rulebook import Rulebook, parse, with_settings
from handrail.runs.metrics import Ledger, beginning, read_records

CONFIGURATION, CONSTRAINTS = "configuration.json", "constraints.yaml"


CHECKPOINTS = "checkpoints"


_KEPT = 2  # checkpoints: the newest, and one to fall back on


Watch = Callable[[Record, Seconds], None]


@final
@dataclass(frozen=True)
class Run:
    """One training run of one seed, in a folder.

    Attributes:
        folder: where everything is.
        rulebook: the constraint file, with the settings that this run was started with.
    """

    folder: Path
    rulebook: Rulebook

    @classmethod
    def create(cls, folder: str | Path, rulebook: Rulebook) -> Run:
        """Start a run in a new folder; nothing is ever overwritten."""
        path = Path(folder)
        refuse_taken(path)
        run = cls(path, rulebook)
        try:
            (path / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
            write_atomically(path / CONSTRAINTS, rulebook.text.encode())
            # The configuration comes last: a folder that has one is a run.
            run._write_configuration()
        except OSError as error:
            raise StorageFailure(
                f"No run can be started in {path}: {error.strerror or error}."
            ) from error
        return run

    def _write_configuration(self) -> None:
        configuration = {
            "format": FORMAT,
            "version": VERSION,
            "name": self.rulebook.name,
            "constraints": hashlib.sha256(self.rulebook.text.encode()).hexdigest(),
            "settings": self.rulebook.settings.model_dump(),
        }
        write_sealed(self.folder / CONFIGURATION, configuration)

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """A run that was started before, its files checked."""
        path = Path(folder)
        configuration = _read_configuration(path)
        check_format(configuration, path / CONFIGURATION)
        try:
            text = (path / CONSTRAINTS).read_bytes()
        except OSError as error:
            raise InvalidRun(f"{path / CONSTRAINTS} cannot be read: {error.strerror}.") from error
        if hashlib.sha256(text).hexdigest() != configuration["constraints"]:
            raise InvalidRun(
                f"{path / CONSTRAINTS} was altered after the run was started. A run keeps its "
                "constraints: start a new one with the altered file."
            )
        rulebook = parse(text.decode(), configuration["name"])
        return cls(path, with_settings(rulebook, **configuration["settings"]))

    @property
    def seed(self) -> int:
        """Of everything in this run."""
        return self.rulebook.settings.seed

    def records(self) -> list[Record]:
        """What was recorded so far; refused if it was altered."""
        checkpoints = self.checkpoints()
        position = load_state(checkpoints[-1])[1]["ledger"] if checkpoints else beginning()
        return read_records(self.folder, position)

    def with_episodes(self, episodes: int) -> Run:
        """The same run with another goal, to be learned on to."""
        longer = Run(self.folder, with_settings(self.rulebook, episodes=episodes))
        with _storing(self.folder):
            longer._write_configuration()
        return longer

    def agent(self) -> Reinforce:
        """The learner as it was at the newest checkpoint; a fresh one if there is none."""
        return self._restored()[0]

    def learn(
        self,
        watch: Watch | None = None,
        stop: Callable[[], bool] = lambda: False,
        checkpoint_seconds: float = 5.0,
    ) -> Reinforce:
        """Learn from the newest checkpoint to the last episode of the settings.

        Args:
            watch: called after every episode.
            stop: asked after every update; True ends the learning early, to be resumed.
            checkpoint_seconds: how much work a kill may cost; it is done again on resume.
        """
        with _lock(self.folder):
            return self._learn(watch, stop, checkpoint_seconds)

    def _learn(
        self, watch: Watch | None, stop: Callable[[], bool], checkpoint_seconds: float
    ) -> Reinforce:
        with _storing(self.folder):
            agent, position = self._restored()
            ledger = Ledger(self.folder, position)
        saved_at = monotonic()

        def after_episode(_: Reinforce, record: Record, seconds: Seconds) -> bool:
            nonlocal saved_at
            with _storing(self.folder):
                ledger.write(record, seconds)
                # No checkpoint between two episodes of the same update.
                whole = ledger.lines == agent.episodes
                if whole and monotonic() - saved_at >= checkpoint_seconds:
                    self._save(agent, ledger)
                    saved_at = monotonic()
            if watch is not None:
                watch(record, seconds)
            return not (whole and stop())

        left = self.rulebook.settings.episodes - agent.episodes
        try:
            if left > 0:
                agent.learn(left, progress_bar=False, callbacks=[after_episode])
            self._save(agent, ledger)
        except StorageFailure:
            raise
        except HandrailError:
            self._save(agent, ledger)  # what went wrong comes after what was learned
            raise
        finally:
            ledger.close()
        return agent

    def checkpoints(self) -> list[Path]:
        """Oldest first."""
        return sorted((self.folder / CHECKPOINTS).glob("episode-*.safetensors"))

    def _restored(self) -> tuple[Reinforce, dict[str, Any]]:
        """The learner and the ledger's position at the newest checkpoint."""
        checkpoints = self.checkpoints()
        if not checkpoints:
            return make_agent(self.rulebook), beginning()
        try:
            tensors, state = load_state(checkpoints[-1])
            check_format(state, checkpoints[-1])
            return self._at(tensors, state), state["ledger"]
        except InvalidRun as error:
            remedy = "There is no older one: start the run again."
            if len(checkpoints) > 1:
                remedy = f"Delete it to continue from {checkpoints[-2].name}."
            raise InvalidRun(f"{error} {remedy}") from error

    def _at(self, tensors: dict[str, NDArray[Any]], state: dict[str, Any]) -> Reinforce:
        """The learner at a checkpoint."""
        book = self.rulebook
        env = book.make_environment()
        policy, learner = make_policy(book, env), book.settings.learner
        return Reinforce.from_snapshot(env, policy, book.constraints, learner, tensors, state)

    def _save(self, agent: Reinforce, ledger: Ledger) -> None:
        tensors, state = agent.snapshot()
        path = self.folder / CHECKPOINTS / f"episode-{agent.episodes:08d}.safetensors"
        with _storing(self.folder):
            save_state(path, tensors, {**state, "ledger": ledger.position()})
            for old in self.checkpoints()[:-_KEPT]:
                old.unlink()


def make_agent(rulebook: Rulebook) -> Reinforce:
    """A fresh learner as a constraint file describes it."""
    if not isinstance(rulebook, Rulebook):
        raise InvalidArgument(
            f"make_agent needs a Rulebook, but got {rulebook!r}. Load it first: "
            "make_agent(load_rulebook('cartpole'))."
        )
    env = rulebook.make_environment()
    policy = make_policy(rulebook, env)
    return Reinforce.with_settings(env, policy, rulebook.constraints, rulebook.settings.learner)


def make_policy(rulebook: Rulebook, env: gym.Env[Any, Any]) -> Policy:
    """A fresh network as a constraint file describes it."""
    network, seed, scale = rulebook.settings.network, rulebook.settings.seed, rulebook.scale()
    hidden, activation = network.hidden, network.activation
    if rulebook.quantity.is_continuous:
        return GaussianPolicy.mlp(env, hidden, activation, seed, scale=scale, std=network.std)
    return CategoricalPolicy.mlp(env, hidden, activation, seed, scale=scale)


def refuse_taken(folder: Path) -> None:
    """A run begins in a folder that is empty or not there yet."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidRun(
            f"{folder} is not empty. Continue it with `handrail resume {folder}`, or choose "
            "another folder with --out."
        )


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return (folder / CONFIGURATION).is_file()


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    with ExitStack() as stack:
        with _storing(folder):
            stack.enter_context(only_process(folder, "learning"))
        yield


@contextmanager
def _storing(folder: Path) -> Iterator[None]:
    """What the disk refuses, in words: the newest checkpoint is untouched by it."""
    try:
        yield
    except OSError as error:
        raise StorageFailure(
            f"Writing to {folder} failed: {error.strerror or error}. Everything up to the newest "
            f"checkpoint is safe. Make room (or the folder writable), then run `handrail "
            f"resume {folder}`."
        ) from error


def _read_configuration(folder: Path) -> dict[str, Any]:
    if not is_run(folder):
        raise InvalidRun(
            f"{folder} is not a run: it has no {CONFIGURATION}. `handrail train` makes runs."
        )
    return read_sealed(folder / CONFIGURATION)
