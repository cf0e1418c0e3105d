"""Models in files: whose, and what is refused."""

from __future__ import annotations

import base64
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
from sb3_contrib import TRPO, MaskablePPO
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.base_class import BaseAlgorithm

import handrail as hr
from handrail.sb3.callback import Handrail
from handrail.sb3.file import load
from handrail.sb3.policy import policy_of
from tests.support.sb3_models import (
    CARTPOLE,
    CARTPOLE_STATES,
    REFUSED,
    REQUIRED,
    changed,
    parameters,
    ppo,
    probabilities,
)


class TestFiles:
    def test_a_saved_model_obeys(self, tmp_path: Path) -> None:
        model = ppo()
        model.learn(64, callback=Handrail(CARTPOLE))
        model.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert isinstance(loaded, PPO)
        assert hr.measure(policy_of(loaded), CARTPOLE).worst_violation <= 1e-5
        with zipfile.ZipFile(tmp_path / "model.zip") as archive:
            assert b"handrail" not in archive.read("data").lower()

    def test_an_edited_model_is_saved_edited(self, tmp_path: Path) -> None:
        ppo().save(tmp_path / "model.zip")
        model = load(str(tmp_path / "model.zip"))
        hr.enforce(policy_of(model), CARTPOLE, tolerance=1e-5).raise_if_unsatisfied()
        model.save(tmp_path / "edited.zip")
        edited = PPO.load(tmp_path / "edited.zip", device="cpu")
        assert probabilities(edited, CARTPOLE_STATES)[[0, 1], [0, 1]].min() >= 0.95 - REQUIRED

    @pytest.mark.parametrize("algorithm", [PPO, A2C, TRPO, MaskablePPO])
    def test_the_algorithm_is_found_out(
        self, tmp_path: Path, algorithm: type[BaseAlgorithm]
    ) -> None:
        make: Any = algorithm
        make("MlpPolicy", "CartPole-v1", device="cpu").save(tmp_path / "model")
        assert type(load(tmp_path / "model")) is algorithm
        assert type(load(tmp_path / "model.zip", algorithm)) is algorithm

    @pytest.mark.parametrize("kind", ["TQC", "recurrent"])
    def test_other_algorithms(self, tmp_path: Path, kind: str) -> None:
        REFUSED[kind][0]().save(tmp_path / "model")
        with pytest.raises(
            hr.errors.InvalidRun, match="another algorithm, by the names of its settings"
        ):
            load(tmp_path / "model")

    def test_what_is_no_model(self, tmp_path: Path) -> None:
        with pytest.raises(hr.errors.InvalidRun, match=r"no model at .*gone\.zip\.$"):
            load(tmp_path / "gone.zip")
        with pytest.raises(hr.errors.InvalidRun, match=r"no model at .*gone, nor at .*gone\.zip"):
            load(tmp_path / "gone")
        (tmp_path / "text.zip").write_text("hello")
        with pytest.raises(
            hr.errors.InvalidRun, match="is not a model of Stable-Baselines3: File is not"
        ):
            load(tmp_path / "text.zip")
        with zipfile.ZipFile(tmp_path / "list.zip", "w") as archive:
            archive.writestr("data", "[1]")
        with pytest.raises(hr.errors.InvalidRun, match="its data is no mapping"):
            load(tmp_path / "list.zip")
        ppo().save(tmp_path / "model")
        damage(tmp_path / "model.zip", tmp_path / "other.zip", observation_space={})
        with pytest.raises(hr.errors.InvalidRun, match=r"cannot load .* as TRPO\. Its own words"):
            load(tmp_path / "other.zip", TRPO)

    def test_tensors_alone_run_no_program(self, tmp_path: Path) -> None:
        ppo().save(tmp_path / "model")
        trap = {":type:": "trap", ":serialized:": Trap.in_a_pickle(tmp_path / "sprung")}
        damage(tmp_path / "model.zip", tmp_path / "theirs.zip", lr_schedule=trap)
        model = ppo(learning_rate=1e-4)
        model.set_parameters(str(tmp_path / "theirs.zip"))
        assert not (tmp_path / "sprung").exists()
        assert not changed(model, parameters(load(tmp_path / "model")))
        load(tmp_path / "theirs.zip")  # what the docs warn of
        assert (tmp_path / "sprung").exists()


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)

    @classmethod
    def in_a_pickle(cls, path: Path) -> str:
        return base64.b64encode(pickle.dumps(cls(path))).decode()


def damage(source: Path, target: Path, **entries: Any) -> None:
    """A copy of a model with other entries in its JSON."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "data":
                content = json.dumps(json.loads(content) | entries).encode()
            new.writestr(name, content)
