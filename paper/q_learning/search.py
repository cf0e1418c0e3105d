"""`python -m paper.q_learning.search`: settings that make double Q-learning a strong opponent.

Optuna proposes settings (tree-structured Parzen estimator), and gives up early what does worse than
the median of those before. A trial learns for as many steps as the experiment does, on seeds that
no reported number has seen; its worth is what the greedy policies score in the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from benchmarks.harness import markdown_table
from handrail._storage import write_atomically
from handrail._threads import one_thread
from handrail.errors import InvalidArgument
from paper.experiment import QLearning, QSettings, experiments
from paper.q_learning.checkpoint import Episodes
from paper.q_learning.run import evaluation_start, greedy_episode, make, make_learner

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

SEEDS = (100, 101)  # the reported ones are 0 to 9
_LOOKS = 3  # at each seed: after every third of the steps
_EPISODES = 50  # whose average is a look: the newest, in the end greedy ones
_TITLE = "# Double Q-learning, tuned"
_BY_HAND = {  # where it begins; what is not named here stays as the experiment has it
    "step_size": 5e-4,
    "batch": 64,
    "discount": 0.99,
    "target_rate": 0.005,
    "exploration_fraction": 0.1,
    "exploration_final": 0.01,
}

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def tune(
    name: Annotated[str, typer.Argument(help="An experiment with double Q-learning.")],
    trials: Annotated[int, typer.Option(min=1, help="In all, those of earlier sittings too.")] = 20,
    folder: Annotated[Path, typer.Option("--out", help="Of the log to go on from.")] = Path(
        "results/search"
    ),
    page: Annotated[Path, typer.Option(help="What was tried, as Markdown.")] = Path(
        "docs/benchmarks/q-learning.md"
    ),
) -> None:
    """Try settings of an experiment, some chosen by hand first; the same command goes on."""
    study = study_named(name)
    folder.mkdir(parents=True, exist_ok=True)
    search = open_search(folder / f"{name}.log", name)
    search.enqueue_trial(_BY_HAND, skip_if_exists=True)
    left = trials - len(ended(search))
    with one_thread():
        search.optimize(lambda trial: worth(study, trial), n_trials=max(left, 0))
    write_atomically(page, search_page(name, study, search).encode())
    typer.echo(f"{page}: best {search.best_value:.1f} with {search.best_params}")


def study_named(name: str) -> QLearning:
    """The study of an experiment; refused if it is none of Q-learning."""
    found = {one.name: one.study for one in experiments() if isinstance(one.study, QLearning)}
    if name not in found:
        raise InvalidArgument(f"{name!r} is no experiment with Q-learning: {', '.join(found)}.")
    return found[name]


def open_search(log: Path, name: str) -> Study:
    """All that was tried, kept in a file."""
    import optuna  # noqa: PLC0415 (optional, and slow to import)
    from optuna.storages import JournalStorage  # noqa: PLC0415
    from optuna.storages.journal import JournalFileBackend  # noqa: PLC0415

    search = optuna.create_study(
        study_name=name,
        storage=JournalStorage(JournalFileBackend(str(log))),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=2),
        direction="maximize",
        load_if_exists=True,
    )
    # Taken up again with the same seed, it would propose once more what it did at first.
    search.sampler = optuna.samplers.TPESampler(seed=len(search.trials), n_startup_trials=4)
    return search


def ended(search: Study) -> list[FrozenTrial]:
    """Trials that reached their end or were given up; not those that were interrupted."""
    return [one for one in search.trials if one.state.name in {"COMPLETE", "PRUNED"}]


def worth(study: QLearning, trial: Trial) -> float:
    """The mean over seeds of what the greedy policy scores in the end."""
    from optuna import TrialPruned  # noqa: PLC0415

    proposed = study.model_copy(update={"settings": _proposed(study.settings, trial)})
    final = []
    for turn, seed in enumerate(SEEDS):
        for number, score in enumerate(looks(proposed, seed)):
            trial.report(score, turn * _LOOKS + number)
            if trial.should_prune():
                raise TrialPruned
        final.append(score)
    return float(np.mean(final))


def looks(study: QLearning, seed: int) -> Iterator[float]:
    """Learn, and say now and then how well it does: while it explores, and in the end greedily."""
    with closing(make(study.environment)) as env:
        learner, episodes = make_learner(study, env, seed), Episodes(env, seed)
        scores: list[float] = []
        for look in range(1, _LOOKS + 1):
            while learner.steps < study.timesteps * look // _LOOKS:
                taken, played = episodes.step(learner.act(episodes.state))
                learner.observe(taken)
                if played is not None:
                    scores.append(played.score)
            if look < _LOOKS:
                yield float(np.mean(scores[-_EPISODES:]))
        starts = (evaluation_start(seed, number) for number in range(_EPISODES))
        yield float(np.mean([greedy_episode(learner, env, start)[0] for start in starts]))


def _proposed(settings: QSettings, trial: Trial) -> QSettings:
    """With what is tuned; the rest stays as it is."""
    return settings.model_copy(
        update={
            "step_size": trial.suggest_float("step_size", 2e-4, 1e-3, log=True),
            "batch": trial.suggest_categorical("batch", [64, 128]),
            "discount": trial.suggest_float("discount", 0.985, 0.995),
            "target_rate": trial.suggest_float("target_rate", 2e-3, 2e-2, log=True),
            "exploration_fraction": trial.suggest_float("exploration_fraction", 0.03, 0.2),
            "exploration_final": trial.suggest_float("exploration_final", 0.01, 0.05),
        }
    )


def search_page(name: str, study: QLearning, search: Study) -> str:
    """What was tried and how it did, the best first."""
    tried = sorted(ended(search), key=_rank)
    header = (
        "trial",
        *_BY_HAND,
        *(f"seed {seed}, {look}/{_LOOKS}" for seed in SEEDS for look in range(1, _LOOKS + 1)),
        "worth",
    )
    table = markdown_table(header, [_row(one) for one in tried], [True] * len(header))
    return "\n\n".join((_TITLE, _introduction(name, study, tried), table)) + "\n"


def _introduction(name: str, study: QLearning, tried: list[FrozenTrial]) -> str:
    given_up = sum(_given_up(one) for one in tried)
    fixed = study.settings.model_dump(exclude=set(_BY_HAND))
    return (
        f"This page is generated: `python -m paper.q_learning.search {name} --trials "
        f"{len(tried)}`. Each trial learned for {study.timesteps:,} environment steps on seeds "
        f"{' and '.join(map(str, SEEDS))}, which no reported number has seen; {given_up} of "
        f"{len(tried)} were given up early (Optuna's median rule). Looks are averages of "
        f"{_EPISODES} episodes: the newest ones after one and two thirds of the steps, greedy ones "
        "in the end. *Worth* is the mean of the greedy ones over both seeds. Trial 0 are settings "
        "chosen by hand. Fixed: "
        + ", ".join(f"{key} {value}" for key, value in fixed.items())
        + "."
    )


def _row(one: FrozenTrial) -> list[str]:
    looked = (one.intermediate_values.get(look) for look in range(_LOOKS * len(SEEDS)))
    return [
        str(one.number),
        *(f"{one.params[name]:.3g}" for name in _BY_HAND),
        *("" if score is None else f"{score:.0f}" for score in looked),
        "given up" if _given_up(one) else f"{one.value:.1f}",
    ]


def _rank(one: FrozenTrial) -> tuple[bool, float]:
    """Those that reached their end come first, the best of them before the others."""
    return _given_up(one), -(one.value or 0.0)


def _given_up(one: FrozenTrial) -> bool:
    return one.state.name == "PRUNED"


if __name__ == "__main__":
    app()
