"""Jobs of Slurm, through submitit: an array with a job per task, on machines that share a disk.

A job does its task in the very folder that this process knows. What it says is appended to a file
that is read here; a file that appears asks all jobs to stop. Jobs that Slurm preempts, or whose
time is over, are queued again by submitit, and go on from what their task has written; so do those
that die. Should the process that watches be killed, they go on to their end, and `resume` then
finds nothing left to do.
"""

from __future__ import annotations

import importlib
import os
import pickle
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep, strftime
from typing import Any, final

from typing_extensions import override

from handrail._storage import append, open_to_append
from handrail.errors import HandrailError, InvalidArgument
from handrail.executors.executor import End, Executor, Message, Task, Work
from handrail.executors.fate import Fate
from handrail.executors.provision import refuse_missing

_WAIT = 0.2  # seconds between looks at what jobs have said
_LOOK = 1.0  # seconds between a job's looks at whether it shall stop
_MINUTES = 24 * 60  # of a job before it is queued again; SBATCH_TIMELIMIT says another time
_REQUEUES = 10_000  # of a job: it gets on every time
_LENGTH = 8  # bytes that say how long a message is
_STOP = "stop"


@final
class SlurmExecutor(Executor):
    """Jobs of Slurm. What else `sbatch` should know is said by its variables: SBATCH_PARTITION, ….

    Args:
        jobs: at most so many at a time; by default as many as Slurm allows.
        modules: to import in each: those that register the user's environments.
        cluster: as submitit calls it: "slurm", or "local" to do the same in processes here.
    """

    def __init__(
        self, jobs: int | None = None, modules: Sequence[str] = (), cluster: str = "slurm"
    ) -> None:
        refuse_missing("submitit", "slurm")
        self._jobs, self._modules, self._cluster = jobs, tuple(modules), cluster

    @override
    def begin(self, tasks: Sequence[Task]) -> Work:
        import submitit  # noqa: PLC0415

        if self._cluster == "slurm" and shutil.which("sbatch") is None:
            raise InvalidArgument(
                "There is no Slurm here: sbatch was not found. Give this command on a machine that "
                "jobs are submitted from."
            )
        # Where all machines see it, as they see what tasks write.
        spool = Path(f".handrail-slurm-{strftime('%Y%m%d-%H%M%S')}-{os.getpid()}").absolute()
        slurm = submitit.AutoExecutor(
            spool / "jobs", cluster=self._cluster, slurm_max_num_timeout=_REQUEUES
        )
        limit = {} if self._jobs is None else {"slurm_array_parallelism": self._jobs}
        slurm.update_parameters(
            name="handrail", timeout_min=_MINUTES, cpus_per_task=1, nodes=1, **limit
        )
        return _Jobs(slurm, tasks, spool, self._modules)


@final
@dataclass(frozen=True)
class _Job:
    """What a job does: submitit calls it, and calls it anew after a requeue.

    Attributes:
        number: of its task.
        task: that it does, pickled: its class may be where only `paths` lead.
        modules: to import first.
        paths: of Python, where these may be.
        spool: where it says things, and is told to stop.
    """

    number: int
    task: bytes
    modules: tuple[str, ...]
    paths: tuple[str, ...]
    spool: Path

    def __call__(self) -> None:
        sys.path += [one for one in self.paths if one not in sys.path]
        task: Task = pickle.loads(self.task)
        stop = _Stop(self.spool / _STOP)
        failure = None
        with open_to_append(said_by(self.number, self.spool)) as file:

            def say(event: Message | End) -> None:
                content = pickle.dumps(event)
                append(file, len(content).to_bytes(_LENGTH, "little") + content)

            try:
                for module in self.modules:
                    importlib.import_module(module)
                if not stop():
                    task.run(lambda message: say(Message(self.number, message)), stop)
            except HandrailError as error:
                failure = f"{task.name}: {error}"
            say(End(self.number, failure))

    def checkpoint(self) -> Any:
        """What submitit queues again: the task goes on from its files."""
        from submitit.helpers import DelayedSubmission  # noqa: PLC0415

        return DelayedSubmission(self)


def said_by(number: int, spool: Path) -> Path:
    """The file with what the job of a task says."""
    return spool / f"{number}.said"


@final
@dataclass
class _Stop:
    """Whether a file is there: a disk that many machines share is asked now and then only."""

    file: Path
    _asked_at: float = field(default=float("-inf"), init=False)
    _found: bool = field(default=False, init=False)

    def __call__(self) -> bool:
        if not self._found and monotonic() - self._asked_at > _LOOK:
            self._asked_at, self._found = monotonic(), self.file.exists()
        return self._found


@final
class _Jobs(Work):
    """Tasks in an array of jobs."""

    def __init__(
        self, slurm: Any, tasks: Sequence[Task], spool: Path, modules: tuple[str, ...]
    ) -> None:
        self._slurm, self._spool = slurm, spool
        paths = tuple(os.path.abspath(one) for one in sys.path)
        packed = [pickle.dumps(task) for task in tasks]
        self._calls = [_Job(n, task, modules, paths, spool) for n, task in enumerate(packed)]
        self._fates = [Fate(number, task) for number, task in enumerate(tasks)]
        self._read = [0] * len(tasks)  # bytes of what each has said
        self._stopped = False
        with slurm.batch():
            submitted = [slurm.submit(call) for call in self._calls]
        self._jobs = dict(enumerate(submitted))

    @override
    def events(self) -> Iterator[Message | End]:
        sleep(_WAIT)
        if self._stopped:
            (self._spool / _STOP).touch()
        for number, job in list(self._jobs.items()):
            over = job.done()  # before reading: what it said is all there then
            for event in self._said(number):
                if isinstance(event, End):
                    del self._jobs[number]
                yield event
            if over and number in self._jobs:
                yield from self._lost(number)

    def _said(self, number: int) -> Iterator[Message | End]:
        """What is new in its file; what is being written is left for the next time."""
        path = said_by(number, self._spool)
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._read[number])
            content = file.read()
        begin = 0
        while len(content) >= begin + _LENGTH:
            end = begin + _LENGTH + int.from_bytes(content[begin : begin + _LENGTH], "little")
            if len(content) < end:
                break
            yield pickle.loads(content[begin + _LENGTH : end])
            begin = end
        self._read[number] += begin

    def _lost(self, number: int) -> Iterator[Message | End]:
        """A job is over that never said so."""
        del self._jobs[number]
        if self._stopped:
            yield End(number, None)
            return
        said_by(number, self._spool).unlink(missing_ok=True)  # perhaps it ends in mid-message
        self._read[number] = 0
        what = self._fates[number].after_death()
        if isinstance(what, Message):
            self._jobs[number] = self._slurm.submit(self._calls[number])
        yield what

    @override
    def stop(self) -> None:
        self._stopped = True

    @override
    def kill(self) -> None:
        for job in list(self._jobs.values()):
            job.cancel(check=False)

    @override
    def close(self) -> None:
        if self._jobs:
            (self._spool / _STOP).touch()  # whoever watched has gone
        else:
            shutil.rmtree(self._spool, ignore_errors=True)
