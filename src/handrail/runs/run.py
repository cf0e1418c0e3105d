"""A run is a folder that survives: configuration, constraint file, metrics, checkpoints, pictures.

Every file is written under a temporary name and renamed, or appended to line by line, so whatever
kills the process, the folder holds a state from which `resume` continues bit for bit: the starts of
an episode depend on the seed and its number alone, so episodes after the newest checkpoint are
simply played again.

A folder from somebody else runs nothing of theirs: it has no code and no pickle, links in it are
not followed, and the modules that its environment needs are named, but never imported by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, final

import gymnasium as gym
from pydantic import ValidationError

from handrail._storage import (
    LOCK,
    is_temporary,
    load_state,
    only_process,
    save_state,
)
from handrail.constraints import counted
from handrail.errors import (
    EpisodeInterrupted,
    HandrailError,
    InvalidArgument,
    InvalidRulebook,
    InvalidRun,
    ModulesNotImported,
    StorageFailure,
)
from handrail.learning import Checkpoint, Learner, Record, Reinforce, Seconds
from handrail.policies import (
    Architecture,
    BranchedPolicy,
    CategoricalPolicy,
    GaussianPolicy,
    Policy,
    VaryingGaussianPolicy,
    spaces_of,
)
from handrail.rulebook import Rulebook, with_settings
from handrail.runs.best_policy import BEST, BEST_WINDOW, BestKeeper, BestPolicy
from handrail.runs.configuration import (
    CONFIGURATION,
    CONSTRAINTS,
    STATES,
    Configuration,
    read_constraints,
    write_constraints,
)
from handrail.runs.metrics import METRICS, TIMINGS, LogPosition, MetricsLog, read_records
from handrail.runs.named_callback import Callback
from handrail.settings import first_finding

CHECKPOINTS = "checkpoints"
_KEPT = 2  # checkpoints: the newest, and one to fall back on
_POSITION = "ledger"  # in the state of a checkpoint

Watch = Callable[[Record, Seconds], None]


@final
@dataclass(frozen=True)
class Run:
    """One training run of one seed, in a folder.

    Attributes:
        folder: where everything is.
        rulebook: the constraint file, with the settings that this run was started with.
        modules: that register its environment. Opening a run imports none of them.
    """

    folder: Path
    rulebook: Rulebook
    modules: tuple[str, ...] = ()

    @classmethod
    def create(
        cls,
        folder: str | Path,
        rulebook: Rulebook,
        modules: Sequence[str] = (),
        first: Checkpoint | None = None,
    ) -> Run:
        """Start a run in a new folder; nothing is ever overwritten.

        Args:
            folder: that is empty or not there yet.
            rulebook: what to learn under.
            modules: that register the environment, to be named to whoever opens the run.
            first: of a learner to begin with (`start_run_from` makes one of a policy); by default a
                fresh one.
        """
        path = Path(folder)
        refuse_taken(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            with only_process(path, "starting a run"):
                refuse_taken(path)  # by somebody who was faster
                (path / CHECKPOINTS).mkdir(exist_ok=True)
                write_constraints(path, rulebook)
                if first is not None:
                    _write_checkpoint(_checkpoint_path(path, 0), first, LogPosition())
                # The configuration comes last: a folder that has one is a run.
                Configuration.of(rulebook, modules).write(path)
        except OSError as error:
            raise StorageFailure(
                f"No run can be started in {path}: {error.strerror or error}."
            ) from error
        return cls(path, rulebook, tuple(modules))

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """A run that was started before, its files checked."""
        path = Path(folder)
        configuration = Configuration.read(path)
        modules = tuple(configuration.modules or ())
        with _naming(modules):  # what a file says of shapes and names only its environment knows
            rulebook = read_constraints(path, configuration)
        return cls(path, rulebook, modules)

    @property
    def seed(self) -> int:
        """Of everything in this run."""
        return self.rulebook.settings.seed

    @property
    def begun(self) -> bool:
        """Whether anybody has learned here: the first checkpoint is that of the first policy."""
        return bool(self.checkpoints() or self.records())

    def records(self) -> list[Record]:
        """What was recorded so far; refused if it was altered."""
        return read_records(self.folder, self._position())

    @property
    def saved_episodes(self) -> int:
        """How many were learned from by the newest checkpoint."""
        return self._position().lines

    @property
    def finished(self) -> bool:
        """Whether the last episode of the settings was learned from, and the learner saved."""
        return self.saved_episodes >= self.rulebook.settings.episodes

    def kept_from_others(self) -> AbstractContextManager[None]:
        """Inside, no other process learns here; refused if one does."""
        return _lock(self.folder)

    def with_episodes(self, episodes: int) -> Run:
        """The same run with another goal, to be learned on to."""
        longer = replace(self, rulebook=with_settings(self.rulebook, episodes=episodes))
        with self.kept_from_others():  # whoever learns here has the goal that the folder says
            self._refuse_lost_checkpoints()  # before anything is changed
            learned = len(self.records())
            if episodes < learned:
                raise InvalidArgument(
                    f"{self.folder} has learned from {counted(learned, 'episode')} already, so "
                    f"{episodes} cannot be its goal. Give a larger number."
                )
            begun = Configuration.read(self.folder)
            with _storing(self.folder):
                begun.with_settings(longer.rulebook).write(self.folder)
        return longer

    def make_environment(self, render_mode: str | None = None) -> gym.Env[Any, Any]:
        """As its constraint file describes it; modules that register it are named, not imported."""
        with _naming(self.modules):
            return self.rulebook.make_environment(render_mode)

    def agent(self) -> Learner:
        """The learner as it was at the newest checkpoint; a fresh one if there is none."""
        return self._restored()[0]

    def best(self) -> BestPolicy:
        """The learner when its last 100 episodes had scored best."""
        path = self.folder / CHECKPOINTS / BEST
        if not path.exists():
            raise InvalidArgument(
                f"{self.folder} has no best policy: it is kept as soon as "
                f"{BEST_WINDOW} episodes were learned from, and {self.saved_episodes} were. Take "
                "the last one, or learn on with `handrail resume`."
            )
        return BestPolicy.load(path)

    def best_agent(self) -> Learner:
        """That learner again."""
        return self._made(self._checked(self.best().checkpoint, BEST))

    def learn(
        self,
        watch: Watch | None = None,
        stop: Callable[[], bool] = lambda: False,
        checkpoint_seconds: float = 5.0,
        callbacks: Sequence[Callback] = (),
    ) -> Learner:
        """Learn from the newest checkpoint to the last episode of the settings.

        Args:
            watch: called after every episode.
            stop: asked after every update; True ends the learning early, to be resumed.
            checkpoint_seconds: how much work a kill may cost; it is done again on resume.
            callbacks: as of `Learner.learn`, called when the episode was recorded.
        """
        with self.kept_from_others():
            return self._learn(watch, stop, checkpoint_seconds, callbacks)

    def _learn(
        self,
        watch: Watch | None,
        stop: Callable[[], bool],
        checkpoint_seconds: float,
        callbacks: Sequence[Callback],
    ) -> Learner:
        with _storing(self.folder):
            _sweep(self.folder)
            agent, position = self._restored()
            best = self._best_keeper(position)
            log = MetricsLog(self.folder, position)
        saved_at = monotonic()

        def after_episode(_: Learner, record: Record, seconds: Seconds) -> bool:
            nonlocal saved_at
            with _storing(self.folder):
                log.write(record, seconds)
                # No checkpoint between two episodes of the same update.
                whole = log.lines == agent.episodes
                best.count(record.score)
                if whole:
                    best.consider(agent)
                if whole and monotonic() - saved_at >= checkpoint_seconds:
                    self._save(agent, log, best)
                    saved_at = monotonic()
            if watch is not None:
                watch(record, seconds)
            return not (whole and stop())

        left = self.rulebook.settings.episodes - agent.episodes
        try:
            if not self.checkpoints():
                # From here on, metrics without a checkpoint mean that one was lost.
                self._save(agent, log, best)
            if left > 0:
                agent.learn(left, progress_bar=False, callbacks=[after_episode, *callbacks])
            self._save(agent, log, best)
        except StorageFailure:
            raise
        except (HandrailError, EpisodeInterrupted):
            if log.lines == agent.episodes:
                self._save(agent, log, best)  # what went wrong comes after what was learned
            raise
        finally:
            log.close()
        return agent

    def checkpoints(self) -> list[Path]:
        """Oldest first."""
        return sorted((self.folder / CHECKPOINTS).glob("episode-*.safetensors"))

    def _position(self) -> LogPosition:
        """In the metrics, at the newest checkpoint."""
        if not self.checkpoints():
            return LogPosition()
        with self._naming_the_older():
            return _read_checkpoint(self.checkpoints()[-1])[1]

    def _restored(self) -> tuple[Learner, LogPosition]:
        """The learner and the position in the metrics at the newest checkpoint."""
        self._refuse_lost_checkpoints()
        if not self.checkpoints():
            return self._made(), LogPosition()
        newest = self.checkpoints()[-1]
        with self._naming_the_older():
            checkpoint, position = _read_checkpoint(newest)
            return self._made(self._checked(checkpoint, newest.name)), position

    def _checked(self, checkpoint: Checkpoint, name: str) -> Checkpoint:
        if checkpoint.settings != self.rulebook.settings.learner:
            path = self.folder / CHECKPOINTS / name
            raise InvalidRun(f"{path} is of a learner with other settings.")
        return checkpoint

    def _best_keeper(self, position: LogPosition) -> BestKeeper:
        """Of the best so far, and of what was learned from up to a checkpoint."""
        path = self.folder / CHECKPOINTS / BEST
        scores = [record.score for record in read_records(self.folder, position)]
        try:
            return BestKeeper(path, scores[: position.lines])
        except InvalidRun as error:
            raise InvalidRun(f"{error} Delete it to go on without the best so far.") from error

    @contextmanager
    def _naming_the_older(self) -> Iterator[None]:
        """What to do about a newest checkpoint that cannot be used."""
        try:
            yield
        except InvalidRun as error:
            remedy = "There is no older one: start the run again."
            if len(self.checkpoints()) > 1:
                remedy = f"Delete it to continue from {self.checkpoints()[-2].name}."
            raise InvalidRun(f"{error} {remedy}") from error

    def _refuse_lost_checkpoints(self) -> None:
        recorded = 0 if self.checkpoints() else len(read_records(self.folder, LogPosition()))
        if recorded:
            raise InvalidRun(
                f"{self.folder} has recorded {counted(recorded, 'episode')}, but has no checkpoint "
                f"of them: what was learned is lost. Restore {self.folder / CHECKPOINTS} from a "
                f"copy; or, to learn all of it again, delete {self.folder / METRICS}."
            )

    def _made(self, checkpoint: Checkpoint | None = None) -> Learner:
        with _naming(self.modules):
            return make_agent(self.rulebook, checkpoint)

    def _save(self, agent: Learner, log: MetricsLog, best: BestKeeper) -> None:
        path = _checkpoint_path(self.folder, agent.episodes)
        with _storing(self.folder):
            path.parent.mkdir(exist_ok=True)  # copies of folders often leave out empty ones
            best.write()  # first: it must not be older than the checkpoint
            _write_checkpoint(path, agent.checkpoint(), log.position())
            for old in self.checkpoints()[:-_KEPT]:
                old.unlink()


@contextmanager
def _naming(modules: Sequence[str]) -> Iterator[None]:
    """Whoever misses the environment inside is told which modules register it."""
    try:
        yield
    except InvalidRulebook as error:
        if not modules:
            raise
        options = " ".join(f"--import {one}" for one in modules)
        raise ModulesNotImported(
            f"{error} This run was started with {options}: if you trust that code, say so "
            "again (a run imports nothing by itself).",
            modules,
        ) from error


def make_agent(rulebook: Rulebook, checkpoint: Checkpoint | None = None) -> Reinforce:
    """A learner as a constraint file describes it: a fresh one, or at a checkpoint of one."""
    if not isinstance(rulebook, Rulebook):
        raise InvalidArgument(
            f"make_agent needs a Rulebook, but got {rulebook!r}. Load it first: "
            "make_agent(load_rulebook('cartpole'))."
        )
    env, settings = rulebook.make_environment(), rulebook.settings.learner
    policy = make_policy(rulebook, env)
    if checkpoint is not None and _is_of_before(checkpoint, policy):
        policy = policy.with_module(checkpoint.policy.build(spaces_of(env)).module)
    return Reinforce.with_settings(env, policy, rulebook, settings, checkpoint)


def _is_of_before(checkpoint: Checkpoint, policy: Policy) -> bool:
    """Whether scaling was not a layer yet, but in the first weights; that network goes on."""
    saved, fresh = checkpoint.policy.architecture, Architecture.of(policy.module)
    return saved is not None and fresh != saved and fresh == replace(saved, scaled=True)


def make_policy(rulebook: Rulebook, env: gym.Env[Any, Any]) -> Policy:
    """A fresh network as a constraint file describes it."""
    network, seed = rulebook.settings.network, rulebook.settings.seed
    kind: type[GaussianPolicy | VaryingGaussianPolicy | CategoricalPolicy | BranchedPolicy]
    kind = CategoricalPolicy
    if rulebook.branches is not None:
        kind = BranchedPolicy
    elif rulebook.ranges is not None:
        kind = VaryingGaussianPolicy if network.std_varies else GaussianPolicy
    policy = kind.mlp(env, network.hidden, network.activation, seed, **rulebook.mlp_arguments())
    if isinstance(policy, GaussianPolicy) and network.std_range is not None:
        return policy.learning_std(*network.std_range)
    return policy


def refuse_taken(folder: Path) -> None:
    """A run begins in a folder that is empty or not there yet."""
    if folder.exists() and not (folder.is_dir() and _is_free(folder)):
        raise InvalidRun(
            f"{folder} is not empty. Continue it with `handrail resume {folder}`, or choose "
            "another folder with --out."
        )


def _is_free(folder: Path) -> bool:
    """Empty, or as a process left it that was killed before its run was one."""
    found = {one.name: one for one in folder.iterdir() if not is_temporary(one)}
    if not found:
        return True
    # The lock comes first: where it is, nothing of these names is anybody else's.
    ours = LOCK in found and found.keys() <= {LOCK, CONSTRAINTS, STATES, CHECKPOINTS}
    linked = any(one.is_symlink() for one in found.values())
    return ours and not linked and not any((folder / CHECKPOINTS).glob("*"))


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


def _sweep(folder: Path) -> None:
    """Delete what killed processes were writing; under the lock, nobody else writes these."""
    ours = {METRICS, TIMINGS, CONFIGURATION}
    for path in [*folder.iterdir(), *(folder / CHECKPOINTS).glob(".*")]:
        if is_temporary(path) and (path.parent != folder or path.stem.removeprefix(".") in ours):
            path.unlink()


def _checkpoint_path(folder: Path, episodes: int) -> Path:
    return folder / CHECKPOINTS / f"episode-{episodes:08d}.safetensors"


def _write_checkpoint(path: Path, checkpoint: Checkpoint, position: LogPosition) -> None:
    """A learner, and how much of the metrics was written when it was so."""
    tensors, state = checkpoint.pack()
    save_state(path, tensors, {**state, _POSITION: position.model_dump()})


def _read_checkpoint(path: Path) -> tuple[Checkpoint, LogPosition]:
    tensors, state = load_state(path)
    checkpoint = Checkpoint.unpack(tensors, state, path)
    if _POSITION not in state:
        raise InvalidRun(f"{path} is a saved learner, but no checkpoint of a run.")
    try:
        position = LogPosition.model_validate(state[_POSITION])
    except ValidationError as error:
        raise InvalidRun(f"{path}: {_POSITION}.{first_finding(error)}") from error
    if not position.lines == checkpoint.progress.episodes == _number(path):
        raise InvalidRun(
            f"{path} is of {counted(checkpoint.progress.episodes, 'episode')} and of metrics of "
            f"{position.lines}, which is not what its name says."
        )
    return checkpoint, position


def _number(path: Path) -> int:
    """Of episodes, in the name of a checkpoint; -1 if it says none."""
    digits = path.stem.removeprefix("episode-")
    return int(digits) if digits.isdecimal() else -1
