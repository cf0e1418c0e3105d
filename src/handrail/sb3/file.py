"""Models of Stable-Baselines3 in files."""

from __future__ import annotations

import json
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm

from handrail.errors import InvalidRun
from handrail.sb3.normalisation import remember_statistics
from handrail.sb3.policy import WHAT_WORKS

# What a model that is not in the middle of learning has no use for.
_LEFT_BEHIND = ("_last_obs", "_last_episode_starts", "_last_original_obs")


def load(
    path: str | Path,
    algorithm: type[BaseAlgorithm] | None = None,
    statistics: str | Path | None = None,
) -> BaseAlgorithm:
    """A saved model, on the CPU, by Stable-Baselines3's own loader.

    Only for files you trust: Stable-Baselines3 stores spaces, schedules and classes as pickles, and
    a pickle can run any program when it is read. Of a file of somebody else, read the tensors
    alone, into a model you make yourself: `model.set_parameters(path)`.

    Args:
        path: with or without .zip.
        algorithm: its class; by default found out from the names of its settings, which are plain
            text.
        statistics: of a model that was trained behind `VecNormalize`: the file that
            `VecNormalize.save` wrote, a pickle as well. Without it, states and constraints would
            have to be in normalised numbers.
    """
    file = _existing(Path(path))
    chosen = _algorithm(file) if algorithm is None else algorithm
    try:
        model = chosen.load(file, device="cpu", custom_objects=dict.fromkeys(_LEFT_BEHIND))
    except Exception as error:
        raise InvalidRun(
            f"Stable-Baselines3 cannot load {file} as {chosen.__name__}. Its own words: "
            f"{type(error).__name__}: {error}. If the model uses classes of your own, import their "
            "module first; if it is of another algorithm, name it: load(path, algorithm=…)."
        ) from error
    if statistics is not None:
        remember_statistics(model, statistics)
    return model


def _existing(path: Path) -> Path:
    if path.is_file():
        return path
    if path.suffix == ".zip":
        raise InvalidRun(f"There is no model at {path}.")
    with_ending = path.with_name(f"{path.name}.zip")
    if with_ending.is_file():
        return with_ending
    raise InvalidRun(f"There is no model at {path}, nor at {with_ending}.")


def _algorithm(file: Path) -> type[BaseAlgorithm]:
    """By the names of the settings: the file does not name its algorithm."""
    settings = _settings(file)
    modules = _module(settings, "policy_class") + _module(settings, "rollout_buffer_class")
    found = None
    if "gae_lambda" in settings and "recurrent" not in modules:
        found = _on_policy(settings, modules, file)
    elif "replay_buffer_class" in settings:
        found = _off_policy(settings, file)
    if found is None:
        raise InvalidRun(
            f"{file} is a model of another algorithm, by the names of its settings. Handrail works "
            f"with {WHAT_WORKS}; a variant of one of them has to be named: load(path, algorithm=…)."
        )
    return found


def _on_policy(settings: dict[str, Any], modules: str, file: Path) -> type[BaseAlgorithm]:
    if "cg_max_steps" in settings:
        return _contributed("TRPO", file)
    if "maskable" in modules:
        return _contributed("MaskablePPO", file)
    return PPO if "n_epochs" in settings else A2C


def _off_policy(settings: dict[str, Any], file: Path) -> type[BaseAlgorithm] | None:
    if "exploration_final_eps" in settings:
        return _contributed("QRDQN", file) if "n_quantiles" in settings else DQN
    if "target_policy_noise" in settings:
        # DDPG is TD3 without what distinguishes it.
        plain = settings.get("policy_delay") == 1 and settings.get("target_noise_clip") == 0.0
        return DDPG if plain else TD3
    of_others = {"top_quantiles_to_drop_per_net", "policy_delay"}  # TQC, CrossQ
    return SAC if "target_entropy" in settings and not of_others & set(settings) else None


def _module(settings: dict[str, Any], key: str) -> str:
    """Where a pickled class comes from: Stable-Baselines3 notes that beside the pickle."""
    entry = settings.get(key)
    return str(entry.get("__module__", "")) if isinstance(entry, dict) else ""


def _settings(file: Path) -> dict[str, Any]:
    """The file's JSON, as text: what is pickled in it stays so."""
    try:
        with zipfile.ZipFile(file) as archive:
            settings = json.loads(archive.read("data"))
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise InvalidRun(f"{file} is not a model of Stable-Baselines3: {error}") from error
    if not isinstance(settings, dict):
        raise InvalidRun(f"{file} is not a model of Stable-Baselines3: its data is no mapping.")
    return settings


def _contributed(name: str, file: Path) -> type[BaseAlgorithm]:
    if find_spec("sb3_contrib") is None:
        raise InvalidRun(f"{file} is a model of {name}: pip install sb3-contrib")
    import sb3_contrib  # noqa: PLC0415  (optional)

    found: type[BaseAlgorithm] = getattr(sb3_contrib, name)
    return found
