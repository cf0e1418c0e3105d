"""A run is a folder that survives: configuration, constraint file, metrics, checkpoints, pictures.

Every file is written under a temporary name and renamed, or appended to line by line, so whatever
kills the process, the folder holds a state from which `resume` continues bit for bit: the starts of
an episode depend on the seed and its number alone, so episodes after the newest checkpoint are
simply played again.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from time import monotonic
from typing import Any, final

import gymnasium as gym

from handrail._package import VERSION
from handrail._storage import (
    STATE_FORMAT,
    check_format,
    load_state,
    only_process,
    read_sealed,
    save_state,
    write_atomically,
    write_sealed,
)
from handrail.errors import HandrailError, InvalidArgument, InvalidRun, StorageFailure
from handrail.learning import Checkpoint, Learner, Record, Reinforce, Seconds
from handrail.policies import CategoricalPolicy, GaussianPolicy, Policy
from handrail.rulebook import Rulebook, parse, with_settings
from handrail.runs.metrics import LogPosition, MetricsLog, read_records

CONFIGURATION, CONSTRAINTS = "configuration.json", "constraints.yaml"
CHECKPOINTS = "checkpoints"
_KEPT = 2  # checkpoints: the newest, and one to fall back on
_POSITION = "ledger"  # in the state of a checkpoint
_COMPUTING = ("torch", "numpy", "gymnasium")

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
        try:
            (path / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
            write_atomically(path / CONSTRAINTS, rulebook.text.encode())
            # The configuration comes last: a folder that has one is a run.
            write_sealed(path / CONFIGURATION, _configuration(rulebook))
        except OSError as error:
            raise StorageFailure(
                f"No run can be started in {path}: {error.strerror or error}."
            ) from error
        return cls(path, rulebook)

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
        position = _read_checkpoint(checkpoints[-1])[1] if checkpoints else LogPosition()
        return read_records(self.folder, position)

    def with_episodes(self, episodes: int) -> Run:
        """The same run with another goal, to be learned on to."""
        longer = Run(self.folder, with_settings(self.rulebook, episodes=episodes))
        begun = _read_configuration(self.folder)
        settings = longer.rulebook.settings.model_dump()
        with _storing(self.folder):
            write_sealed(self.folder / CONFIGURATION, {**begun, "settings": settings})
        return longer

    def agent(self) -> Learner:
        """The learner as it was at the newest checkpoint; a fresh one if there is none."""
        return self._restored()[0]

    def learn(
        self,
        watch: Watch | None = None,
        stop: Callable[[], bool] = lambda: False,
        checkpoint_seconds: float = 5.0,
    ) -> Learner:
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
    ) -> Learner:
        with _storing(self.folder):
            agent, position = self._restored()
            log = MetricsLog(self.folder, position)
        saved_at = monotonic()

        def after_episode(_: Learner, record: Record, seconds: Seconds) -> bool:
            nonlocal saved_at
            with _storing(self.folder):
                log.write(record, seconds)
                # No checkpoint between two episodes of the same update.
                whole = log.lines == agent.episodes
                if whole and monotonic() - saved_at >= checkpoint_seconds:
                    self._save(agent, log)
                    saved_at = monotonic()
            if watch is not None:
                watch(record, seconds)
            return not (whole and stop())

        left = self.rulebook.settings.episodes - agent.episodes
        try:
            if left > 0:
                agent.learn(left, progress_bar=False, callbacks=[after_episode])
            self._save(agent, log)
        except StorageFailure:
            raise
        except HandrailError:
            self._save(agent, log)  # what went wrong comes after what was learned
            raise
        finally:
            log.close()
        return agent

    def checkpoints(self) -> list[Path]:
        """Oldest first."""
        return sorted((self.folder / CHECKPOINTS).glob("episode-*.safetensors"))

    def _restored(self) -> tuple[Learner, LogPosition]:
        """The learner and the position in the metrics at the newest checkpoint."""
        checkpoints = self.checkpoints()
        if not checkpoints:
            return make_agent(self.rulebook), LogPosition()
        try:
            checkpoint, position = _read_checkpoint(checkpoints[-1])
            return make_agent(self.rulebook, checkpoint), position
        except InvalidRun as error:
            remedy = "There is no older one: start the run again."
            if len(checkpoints) > 1:
                remedy = f"Delete it to continue from {checkpoints[-2].name}."
            raise InvalidRun(f"{error} {remedy}") from error

    def _save(self, agent: Learner, log: MetricsLog) -> None:
        path = self.folder / CHECKPOINTS / f"episode-{agent.episodes:08d}.safetensors"
        with _storing(self.folder):
            _write_checkpoint(path, agent.checkpoint(), log.position())
            for old in self.checkpoints()[:-_KEPT]:
                old.unlink()


def make_agent(rulebook: Rulebook, checkpoint: Checkpoint | None = None) -> Reinforce:
    """A learner as a constraint file describes it: a fresh one, or at a checkpoint of one."""
    if not isinstance(rulebook, Rulebook):
        raise InvalidArgument(
            f"make_agent needs a Rulebook, but got {rulebook!r}. Load it first: "
            "make_agent(load_rulebook('cartpole'))."
        )
    env = rulebook.make_environment()
    policy, settings = make_policy(rulebook, env), rulebook.settings.learner
    return Reinforce.with_settings(env, policy, rulebook.constraints, settings, checkpoint)


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


def _configuration(rulebook: Rulebook) -> dict[str, Any]:
    """What a run is started with, and by which versions: other ones may compute other numbers."""
    return {
        "format": STATE_FORMAT,
        "version": VERSION,
        "versions": {
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _COMPUTING},
        },
        "name": rulebook.name,
        "constraints": hashlib.sha256(rulebook.text.encode()).hexdigest(),
        "settings": rulebook.settings.model_dump(),
    }


def _write_checkpoint(path: Path, checkpoint: Checkpoint, position: LogPosition) -> None:
    """A learner, and how much of the metrics was written when it was so."""
    tensors, state = checkpoint.pack()
    save_state(path, tensors, {**state, _POSITION: asdict(position)})


def _read_checkpoint(path: Path) -> tuple[Checkpoint, LogPosition]:
    tensors, state = load_state(path)
    checkpoint = Checkpoint.unpack(tensors, state, path)
    if _POSITION not in state:
        raise InvalidRun(f"{path} is a saved learner, but no checkpoint of a run.")
    return checkpoint, LogPosition(**state[_POSITION])
