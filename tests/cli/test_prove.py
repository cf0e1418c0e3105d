"""`handrail prove` and `handrail verify`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import handrail as hr
from handrail.cli.prove import CERTIFICATE
from handrail.rulebook.rulebook import parse, with_settings
from handrail.runs.run import Run
from tests.cli.conftest import Caller

LEANING = """
environment: CartPole-v1
observations: [x, x_dot, phi, phi_dot]
actions: [left, right]
constraints:
  - name: lean right
    region: {x: [-1, 1], x_dot: 0, phi: [0.15, 0.2], phi_dot: [0, 0.1]}
    require: right >= 0.9
  - name: lean left
    where: {x: 0, x_dot: 0, phi: -0.2, phi_dot: 0}
    require: left >= 0.9
settings: {episodes: 2, network: {hidden: [100]}}
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    started = Run.create(tmp_path / "run", parse(LEANING, "leaning"))
    started.learn()
    return started


def test_prove_and_verify_a_run(run: Run, handrail: Caller) -> None:
    code, out, _ = handrail("prove", run.folder, "--tolerance", "1e-6")
    assert code == 0
    assert out.startswith("seed 0: 2 of 2 certified\n'lean right' (≥ 0.9) holds within 1e-06 at ev")
    assert f"Wrote {run.folder / CERTIFICATE}." in out
    code, _, error = handrail("verify", run.folder / CERTIFICATE, run.folder)
    assert code == 2  # what is allowed is not for the file to say
    assert "within a tolerance of 1e-06, not of 0.0. Say which" in " ".join(error.split())
    code, out, _ = handrail("verify", run.folder / CERTIFICATE, run.folder, "--tolerance", "1e-6")
    assert code == 0
    assert "seed 0, proven again: 2 of 2 certified" in out
    assert out.endswith("certificate.json holds within 1e-06.\n")


def test_a_certificate_of_an_earlier_policy(run: Run, handrail: Caller) -> None:
    handrail("prove", run.folder, "--tolerance", "1e-6")
    run.with_episodes(4).learn()
    code, _, error = handrail("verify", run.folder / CERTIFICATE, run.folder)
    assert code == 2
    assert "is about other weights" in error


def test_a_run_that_does_not_obey_has_no_proof(handrail: Caller, tmp_path: Path) -> None:
    book = with_settings(parse(LEANING, "leaning"), enforcement="none")
    run = Run.create(tmp_path / "run", book)
    run.learn()
    code, out, _ = handrail("prove", run.folder)
    assert code == 1
    assert "seed 0: 0 of 2 certified" in out
    assert "'lean right' (≥ 0.9) does not hold: it is violated by" in out
    code, _, error = handrail("verify", run.folder / CERTIFICATE, run.folder)
    assert code == 2
    assert "does not certify every constraint" in error


def test_modules_that_register_environments_can_be_imported(
    run: Run, handrail: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_for_proofs.py").write_text("print('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    code, out, _ = handrail("prove", run.folder, "--import", "imported_for_proofs")
    assert code == 0
    assert out.startswith("imported\n")
    code, _, error = handrail("verify", run.folder / CERTIFICATE, run.folder, "--import", "no_such")
    assert code == 2
    assert "--import no_such: ModuleNotFoundError" in error


def test_a_model_that_was_edited_is_proven_and_verified(handrail: Caller, tmp_path: Path) -> None:
    """From what Stable-Baselines3 saved to a proof, by commands alone."""
    sb3 = pytest.importorskip("stable_baselines3")
    model, edited, rules = tmp_path / "m.zip", tmp_path / "edited.zip", tmp_path / "leaning.yaml"
    sb3.PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu").save(model)
    rules.write_text(LEANING)
    about = ("--constraints", rules)
    code, out, error = handrail("edit", model, *about, "--out", edited, "--prove")
    assert (code, error) == (0, "")
    assert "note: Not proven, but measured at each of their states: 'lean left'." in out
    code, _, error = handrail("prove", edited)
    assert code == 2
    assert f"{edited} does not say all that is to be proven of its policy. Name a const" in error
    policy = pytest.importorskip("handrail.sb3").policy_of(sb3.PPO.load(edited, device="cpu"))
    left = float(policy.outputs(np.array([[0.0, 0.0, -0.2, 0.0]]))[0, 0])
    tight = tmp_path / "tight.yaml"
    tight.write_text(LEANING.replace("left >= 0.9", f"left >= {left - 1e-6!r}"))
    code, out, _ = handrail("prove", edited, "--constraints", tight)
    assert code == 1
    assert "too near to its bound for float32" in out
    assert "allow a larger tolerance" in out
    within = (*about, "--tolerance", "1e-3")
    code, out, error = handrail("prove", edited, *within)
    assert (code, error) == (0, "")
    assert out.startswith("note: if it was trained with VecNormalize, it sees normalised observ")
    assert f"\n{edited}: 2 of 2 certified\n" in out
    certificate = tmp_path / "edited.zip.certificate.json"
    code, out, _ = handrail("verify", certificate, edited, *within)
    assert code == 0
    assert out.endswith("edited.zip.certificate.json holds within 0.001.\n")
    code, _, error = handrail("verify", certificate, model, *within)
    assert code == 2
    assert "is about other weights" in error
    assert handrail("prove", edited, *within, "--inside")[0] == 0
    code, out, _ = handrail("verify", edited, *within)
    assert code == 0
    assert out.endswith("edited.zip holds within 0.001.\n")
    again = pytest.importorskip("handrail.sb3").policy_of(sb3.PPO.load(edited, device="cpu"))
    assert all(map(torch.equal, again.parameters, policy.parameters))  # the model is what it was


def test_a_policy_in_a_file_is_proven_and_verified(
    run: Run, handrail: Caller, tmp_path: Path
) -> None:
    saved, rules = tmp_path / "saved.safetensors", tmp_path / "leaning.yaml"
    run.agent().save(saved)
    rules.write_text(LEANING)
    target = tmp_path / "saved.safetensors.certificate.json"
    code, _, error = handrail("prove", saved)
    assert code == 2
    assert "does not say all that is to be proven" in error
    code, out, error = handrail("prove", saved, "--constraints", rules, "--tolerance", "1e-6")
    assert (code, error) == (0, "")
    assert out.startswith(f"{saved}: 2 of 2 certified\n")
    assert out.endswith(f"Wrote {target}.\n")
    code, out, _ = handrail(
        *("verify", target, saved, "--constraints", rules, "--tolerance", "1e-6")
    )
    assert code == 0
    assert out.endswith("certificate.json holds within 1e-06.\n")
    code, _, error = handrail("verify", target, saved, "--constraints", "cartpole")
    assert code == 2
    assert "constraint" in error


def test_a_certificate_travels_in_an_export_and_is_verified_from_it(
    handrail: Caller, tmp_path: Path
) -> None:
    # Both on regions, which are held by a margin: a point may be too near its bound for float32.
    on_regions = LEANING.replace("where: {x: 0", "region: {x: [-0.1, 0.1]")
    run = Run.create(tmp_path / "run", parse(on_regions, "leaning"))
    run.learn()
    for ending, options in ((".onnx", ("--float32",)), (".npz", ("--format", "numpy"))):
        file = tmp_path / f"policy{ending}"
        code, out, _ = handrail("export", run.folder, "--out", file, "--prove", *options)
        precision = "float32" if "--float32" in options else "float64"
        assert f"Of this file, in {precision}: 2 of 2 certified" in out
        assert code == 0
        code, out, _ = handrail("verify", file)
        assert code == 0
        assert f"{file}, proven again: 2 of 2 certified" in out
        assert out.endswith(f"{file} holds.\n")
        code, out, _ = handrail("prove", file)  # and without: of any exported file
        assert code == 0
        assert f"Wrote {file}.certificate.json." in out
        assert handrail("verify", f"{file}.certificate.json", file)[0] == 0
        # In float64 the run has the very weights of the file, in float32 it has not.
        code, _, error = handrail("verify", file, run.folder)
        assert (code, "is about other weights" in error) == (
            (0, False) if precision == "float64" else (2, True)
        )


def test_a_certificate_travels_in_a_saved_learner(
    run: Run, handrail: Caller, tmp_path: Path
) -> None:
    saved, rules = tmp_path / "saved.safetensors", tmp_path / "leaning.yaml"
    run.agent().save(saved)
    rules.write_text(LEANING)
    about = ("--constraints", rules, "--tolerance", "1e-6")
    code, _, error = handrail("verify", saved, *about)
    assert code == 2
    assert f"or prove it: handrail prove {saved} --inside." in error
    weights = [p.detach().clone() for p in run.agent().policy.parameters]
    for _ in range(2):  # the second replaces the first
        code, out, error = handrail("prove", saved, *about, "--inside")
        assert (code, error) == (0, "")
        assert out.endswith(f"Wrote {saved}.\n")
    assert list(tmp_path.glob("*.certificate.json")) == []
    code, out, _ = handrail("verify", saved, *about)
    assert code == 0
    assert out.endswith("saved.safetensors holds within 1e-06.\n")
    loaded = hr.Reinforce.load(saved)
    assert all(map(torch.equal, loaded.policy.parameters, weights))
    loaded.save(saved)  # other weights perhaps: nothing is claimed of them
    code, _, error = handrail("verify", saved, *about)
    assert (code, "carries no certificate" in error) == (2, True)


def test_a_certificate_of_other_weights_is_not_one(
    run: Run, handrail: Caller, tmp_path: Path
) -> None:
    saved, rules = tmp_path / "saved.safetensors", tmp_path / "leaning.yaml"
    agent = run.agent()
    agent.save(saved)
    rules.write_text(LEANING)
    about = ("--constraints", rules, "--tolerance", "1e-6")
    assert handrail("prove", saved, *about, "--inside")[0] == 0
    foreign = hr.runs.certificate_in(saved)
    with torch.no_grad():
        agent.policy.parameters[-1].add_(1e-9)
    agent.save(saved)
    hr.runs.carry_certificate(saved, foreign)
    code, _, error = handrail("verify", saved, *about)
    assert (code, "is about other weights" in error) == (2, True)


def test_what_has_no_inside_is_refused_before_any_work(
    run: Run, handrail: Caller, tmp_path: Path
) -> None:
    code, _, error = handrail("prove", run.folder, "--inside")
    assert code == 2
    assert "--inside is about the file of one policy" in error
    file = tmp_path / "policy.npz"
    assert handrail("export", run.folder, "--format", "numpy", "--out", file)[0] == 0
    code, _, error = handrail("prove", file, "--inside")
    assert code == 2
    assert "only inside .safetensors or .zip" in error


def test_float32_is_proven_on_request(run: Run, handrail: Caller) -> None:
    code, _, _ = handrail("prove", run.folder, "--tolerance", "1e-3", "--float32")
    assert code == 0
    certificate = run.folder / CERTIFICATE
    assert '"dtype": "float32"' in certificate.read_text()
    code, _, error = handrail("verify", certificate, run.folder, "--tolerance", "1e-3")
    assert (code, "is about other weights" in error) == (2, True)
    arguments = ("verify", certificate, run.folder, "--tolerance", "1e-3", "--float32")
    assert handrail(*arguments)[0] == 0


def test_exports_without_a_certificate_and_certificates_about_nothing(
    run: Run, handrail: Caller, tmp_path: Path
) -> None:
    file = tmp_path / "policy.npz"
    assert handrail("export", run.folder, "--format", "numpy", "--out", file)[0] == 0
    code, _, error = handrail("verify", file)
    assert code == 2
    assert "carries no certificate. Export it with one, handrail export … --prove" in error
    code, _, error = handrail("verify", run.folder / CERTIFICATE)
    assert code == 2
    assert "Name the run or the policy, too" in error
    code, _, error = handrail(
        *("export", run.folder, "--format", "numpy", "--float32", "--out", tmp_path / "a.npz")
    )
    assert code == 2
    assert "--float32 is about ONNX: a NumPy file computes in float64" in error
    stricter = tmp_path / "leaning.yaml"
    stricter.write_text(LEANING)
    code, _, error = handrail(
        "edit", file, "--constraints", stricter, "--out", tmp_path / "edited.npz"
    )
    assert code == 2
    assert "An exported file is not changed." in error
