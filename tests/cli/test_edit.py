"""`handrail edit`."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file
from torch import nn

import handrail as hr
from handrail.learning.reinforce import Reinforce
from handrail.runs.run import Run
from tests.cli.conftest import Caller
from tests.enforcement.test_policy_edit import CARTPOLE, PPO_WEIGHTS, episodes, ppo, weights_of
from tests.runs.test_run import TEXT, book
from tests.support.cartpole import constraints as paper_constraints


class Edits:
    """Calls `handrail edit …`."""

    def __init__(self, handrail: Caller) -> None:
        self._handrail = handrail

    def __call__(self, *arguments: str | Path) -> tuple[int, str, str]:
        """Exit code, output and errors, with wrapped words joined again."""
        code, out, error = self._handrail("edit", *arguments)
        return code, " ".join(out.split()), error


@pytest.fixture
def edit(handrail: Caller) -> Edits:
    return Edits(handrail)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = Run.create(tmp_path_factory.mktemp("edit") / "run", book())
    made.learn()
    return made


@pytest.fixture
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reference states: few, so that it is quick."""
    path = tmp_path_factory.mktemp("states") / "few.npy"
    np.save(path, [[position, 1.0] for position in np.linspace(0.0, 1.0, 20)])
    return path


STRICTER = TEXT.replace("position: [0.2, 0.6]", "position: [0.2, 0.6, 0.8]").replace(
    "on >= 0.9", "on >= 0.9999"
)


CONTRARY = TEXT.replace("on >= 0.9", "back >= 0.9")


def test_a_run_becomes_a_learner_that_obeys_and_learns_on(
    run: Run, edit: Edits, tmp_path: Path
) -> None:
    rules, target = tmp_path / "stricter.yaml", tmp_path / "edited.safetensors"
    rules.write_text(STRICTER)
    code, out, error = edit(run.folder, "--constraints", rules, "-o", target)
    assert (code, error) == (0, "")
    assert "2 of 3 → 0 of 3" in out
    assert "violated rows of its own │ 0 of 2 → 0 of 2" in out
    assert "of the observation space" in out
    assert f"Wrote {target}. Wrote {target.with_suffix('.png')}." in out
    picture = np.asarray(Image.open(target.with_suffix(".png")).convert("L"))
    assert picture.shape[1] > 1000
    assert picture.std() > 10
    agent, before = Reinforce.load(target), run.agent()
    assert (agent.episodes, agent.steps) == (before.episodes, before.steps)
    assert agent.settings == before.settings
    states = [[0.2, 1.0], [0.6, 1.0], [0.8, 1.0]]
    assert agent.probabilities(states)[:, 1].min() >= 0.9999 - 1e-6
    assert before.probabilities(states)[:, 1].min() < 0.9999
    record = agent.learn(episodes=1, progress_bar=False)[0]
    assert record.violation_after is not None
    assert record.violation_after <= 1e-6
    assert agent.probabilities(states)[:, 1].min() >= 0.9999 - 1e-6  # the new law


def test_a_saved_learner_is_edited_and_edited_again(
    run: Run, edit: Edits, few: Path, tmp_path: Path
) -> None:
    saved, rules = tmp_path / "saved.safetensors", tmp_path / "stricter.yaml"
    rules.write_text(STRICTER)
    run.agent().save(saved)
    content = saved.read_bytes()
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    assert edit(saved, "--constraints", rules, "-o", first, "--states", few)[0] == 0
    assert saved.read_bytes() == content
    code, out, _ = edit(first, "--constraints", rules, "-o", second, "--states", few)
    assert code == 0
    assert "0 of 3 → 0 of 3" in out
    assert "Every constraint holds already: the policy was left as it was." in out
    weights = [weights_of(Reinforce.load(path).policy) for path in (first, second)]
    assert weights[0] == weights[1]


def test_constraints_that_no_longer_hold_are_told(
    run: Run, edit: Edits, few: Path, tmp_path: Path
) -> None:
    rules = tmp_path / "contrary.yaml"
    rules.write_text(CONTRARY)
    code, out, _ = edit(
        *(run.folder, "--constraints", rules, "-o", tmp_path / "edited.safetensors"),
        *("--states", few),
    )
    assert code == 0
    assert "violated rows of its own │ 0 of 2 → 2 of 2" in out
    assert "note: the constraints that it obeyed before no longer all hold." in out


def test_a_model_of_stable_baselines3_is_edited(edit: Edits, tmp_path: Path) -> None:
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    sb3 = importlib.import_module("handrail.sb3")
    model = stable_baselines3.PPO("MlpPolicy", CARTPOLE, n_steps=8, batch_size=8, device="cpu")
    model.policy.load_state_dict(load_file(PPO_WEIGHTS))
    saved, target, states = tmp_path / "ppo.zip", tmp_path / "edited.zip", tmp_path / "visited.npy"
    model.save(saved)
    visited = episodes(ppo(), range(4))[0][::5]
    np.save(states, visited)
    code, out, error = edit(
        *(saved, "--constraints", "cartpole", "-o", target, "--states", states),
        *("--max-change", "0.5", "--picture", tmp_path / "change.png", "--at", "x=-2"),
        *("--over", "phi,phi_dot"),
    )
    assert (code, error) == (0, "")
    assert "5 of 18 → 0 of 18" in out
    assert "400, of visited.npy" in out
    assert "note: if it was trained with VecNormalize, it sees normalised observations" in out
    assert (tmp_path / "change.png").exists()
    policy = sb3.policy_of(sb3.load(target))
    assert hr.measure(policy, paper_constraints()).worst_violation <= 1e-6
    assert weights_of(sb3.policy_of(sb3.load(saved))) == weights_of(ppo())
    in_python = ppo()
    hr.edit(in_python, paper_constraints(), visited)
    assert weights_of(policy) == weights_of(in_python)


def test_a_refused_edit_writes_nothing(run: Run, edit: Edits, few: Path, tmp_path: Path) -> None:
    rules = tmp_path / "contrary.yaml"
    rules.write_text(CONTRARY)
    code, out, error = edit(
        *(run.folder, "--constraints", rules, "-o", tmp_path / "edited.safetensors"),
        *("--max-change", "0.001", "--states", few),
    )
    assert (code, out) == (2, "")
    assert error.startswith("error: Holding the constraints changes the probability of action")
    assert "at most 0.001 is allowed (max_change)" in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["contrary.yaml"]


def test_settings_are_refused_before_the_work(
    run: Run, edit: Edits, few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = tmp_path / "one_step.yaml"
    rules.write_text(
        TEXT.replace("where: {position: [0.2, 0.6], one: 1}", "region: {position: [0.2, 0.6]}")
        .replace("{position: [0.2, 0.6]}", "{position: [0.2, 0.6], one: 1}")
        .replace("seed: 4", "seed: 4, enforcement: one_step")
    )

    def worked(*_: object) -> None:
        pytest.fail("It was edited before its settings were looked at.")

    monkeypatch.setattr(hr, "edit", worked)
    target = tmp_path / "edited.safetensors"
    code, _, error = edit(run.folder, "--constraints", rules, "-o", target, "--states", few)
    assert code == 2
    assert "selection 'everywhere' holds regions exactly, enforcement 'one_step' does not" in error


def test_nothing_is_overwritten(run: Run, edit: Edits, tmp_path: Path) -> None:
    taken = tmp_path / "taken.safetensors"
    taken.write_text("precious")
    (tmp_path / "free.png").write_text("precious")
    rules = tmp_path / "rules.yaml"
    rules.write_text(STRICTER)
    for target, blamed in ((taken, taken), (tmp_path / "free.safetensors", tmp_path / "free.png")):
        code, _, error = edit(run.folder, "--constraints", rules, "-o", target)
        assert code == 2
        assert f"{blamed} exists already. Delete it first, or choose another name with" in error
    assert taken.read_text() == "precious"
    assert not (tmp_path / "free.safetensors").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-o", "edited.zip"), "written as a .safetensors file, so --out edited.zip should be"),
        (("-o", "no/folder/edited.safetensors"), "there is no folder no/folder"),
        (("--constraints", "acrobot"), "acrobot names 6 observations (cos1"),
        (("--states", "missing.npy"), "Reference states missing.npy: there is no such file."),
        (("--states", "rules.yaml"), "expected an array (n, n_observations) that numpy.save"),
        (("--states", "several.npz"), "expected an array (n, n_observations) that numpy.save"),
        (("--prove", "--set", "selection=maximum_return"), "add --set selection=everywhere"),
        (("--set", "selection=nothing"), "expected everywhere, maximum_return or"),
        (
            ("--set", "reach=10"),
            "an edit has no reach. It changes the policy as little as possible",
        ),
        (
            ("--set", "seed=3"),
            "an edit does not learn, so of the settings it takes selection and to",
        ),
        (("--set", "network.hidden=8"), "--set network=…: an edit does not learn"),
        (("--constraints", "three.yaml"), "names 3 actions (back, on, wait), but"),
        (("--over", "phi,one"), "Unknown observation 'phi'"),
        (
            ("--max-change-in", "position=a..b"),
            "--max-change-in position=a..b: expected name=low..high or name=",
        ),
        (("--max-change-in", "position=0..1"), "a range or a value for each observation"),
        (
            ("--max-change-in", "position=0..1", "--max-change-in", "one=1"),
            "max_change above 0, not None",
        ),
    ],
)
def test_what_the_command_refuses(
    options: tuple[str, ...],
    words: str,
    run: Run,
    edit: Edits,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.yaml").write_text(STRICTER)
    Path("three.yaml").write_text(STRICTER.replace("[back, on]", "[back, on, wait]"))
    np.savez("several.npz", a=np.zeros((3, 2)))
    before = sorted(tmp_path.iterdir())
    standard = ("--constraints", "rules.yaml", "-o", "edited.safetensors")
    code, _, error = edit(run.folder, *standard, *options)
    assert code == 2
    assert words in error
    assert sorted(tmp_path.iterdir()) == before


def test_what_is_no_policy(run: Run, edit: Edits, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(STRICTER)
    rest = ("--constraints", rules, "-o", tmp_path / "edited.safetensors")
    assert "There is no " in edit(tmp_path / "missing.safetensors", *rest)[2]
    assert "is a text, such as a constraint file, but what is asked" in edit(rules, *rest)[2]
    assert "holds no run" in edit(tmp_path, *rest)[2]
    group = tmp_path / "group"
    for seed in (4, 5):
        Run.create(group / f"seed-{seed}", book(seed=seed))
    assert f"{group} holds 2 runs. Name one of them" in edit(group, *rest)[2]
    assert "has learned nothing yet" in edit(group / "seed-4", *rest)[2]


def test_a_network_of_ones_own_is_for_python(edit: Edits, run: Run, tmp_path: Path) -> None:
    rules, saved = tmp_path / "rules.yaml", tmp_path / "own.safetensors"
    rules.write_text(STRICTER)
    module = nn.Sequential(nn.Linear(2, 8), nn.Mish(), nn.Linear(8, 2)).double()
    Reinforce("Corridor-v0", hr.CategoricalPolicy(module)).save(saved)
    error = edit(saved, "--constraints", rules, "-o", tmp_path / "edited.safetensors")[2]
    assert "a network of your own, which only you can build. Load it in Python" in error
