"""What a page is opened on, and the one file that it writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import handrail as hr
from handrail.errors import InvalidArgument, InvalidRulebook
from handrail.rulebook import parse, with_settings
from handrail.runs import make_policy
from handrail.studio import Opened
from handrail.studio.opened import FileTaken
from handrail.studio.workbench import Workbench
from tests.studio.conftest import TEXT

STATE = [0.0, 0.0, 0.15, 0.0]


def test_a_file_is_saved_to_itself(tmp_path: Path) -> None:
    file = tmp_path / "lean.yaml"
    file.write_text(TEXT)
    opened = Opened.of(str(file), None, None)
    assert (opened.file, opened.on_disk, opened.target.policy) == (file, TEXT, None)
    opened.save("new", TEXT, anyway=False)
    assert file.read_text() == "new"


def test_what_somebody_else_has_written_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "lean.yaml"
    file.write_text(TEXT)
    opened = Opened.of(str(file), None, None)
    file.write_text("of somebody else")
    with pytest.raises(FileTaken, match="somebody else has written it"):
        opened.save("new", TEXT, anyway=False)
    assert file.read_text() == "of somebody else"
    opened.save("new", TEXT, anyway=True)
    assert file.read_text() == "new"


def test_a_bundled_file_is_saved_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opened = Opened.of("cartpole", None, None)
    assert opened.file == Path("cartpole.yaml")
    assert Opened.of(None, None, None).target.name == "cartpole.yaml"
    Path("cartpole.yaml").write_text("mine")
    with pytest.raises(FileTaken, match="is not what was opened here"):
        opened.save("new", opened.on_disk, anyway=False)


def test_a_policy_brings_its_constraints_or_needs_some(tmp_path: Path) -> None:
    book = parse(TEXT, "lean.yaml")
    env = book.make_environment()
    policy = make_policy(book, env)
    env.close()
    hr.export_numpy(policy, tmp_path / "bare.npz")
    hr.export_numpy(policy, tmp_path / "whole.npz", book)
    with pytest.raises(InvalidArgument, match="--constraints FILE"):
        Opened.of(str(tmp_path / "bare.npz"), None, None)
    opened = Opened.of(str(tmp_path / "bare.npz"), "cartpole", None)
    assert (opened.target.policy, opened.target.name) == (tmp_path / "bare.npz", "cartpole.yaml")
    whole = Opened.of(str(tmp_path / "whole.npz"), None, None)
    assert whole.target.text == TEXT
    assert whole.on_disk is None
    with pytest.raises(InvalidArgument, match="here the constraint file itself was given"):
        Opened.of("cartpole", "cartpole", None)


def held(opened: Opened) -> Workbench:
    """What the page shows of it."""
    target = opened.target
    bench = Workbench(target)
    drawing = bench.draw(0, target.text, None)
    assert drawing.error == ""
    assert bench.hold(0, 3).satisfied
    return bench


def test_a_studio_on_an_onnx_file_holds_the_policy_of_that_file(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    book = parse(TEXT, "lean.yaml")
    policy = make_policy(with_settings(book, seed=5), book.make_environment())
    before = policy.outputs([STATE])[0]
    hr.export_onnx(policy, tmp_path / "lean.onnx", book)
    opened = Opened.of(str(tmp_path / "lean.onnx"), None, None)
    assert (opened.target.text, opened.file) == (TEXT, Path("lean.yaml"))
    probed = held(opened).probe(STATE)
    assert probed.before == pytest.approx(before, abs=1e-6)
    assert probed.outputs[1] >= 0.9 > probed.before[1]


def test_a_studio_on_a_model_holds_the_policy_of_that_model(tmp_path: Path) -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    model = sb3.PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [16]}, seed=0)
    model.save(tmp_path / "model.zip")
    (tmp_path / "lean.yaml").write_text(TEXT)
    with pytest.raises(InvalidArgument, match=r"model\.zip obey, .* --constraints FILE"):
        Opened.of(str(tmp_path / "model.zip"), None, None)
    opened = Opened.of(str(tmp_path / "model.zip"), str(tmp_path / "lean.yaml"), None)
    probed = held(opened).probe(STATE)
    observed = torch.tensor([STATE], dtype=torch.float32)
    expected = model.policy.get_distribution(observed).distribution.probs
    assert probed.before == pytest.approx(expected.detach().numpy()[0], abs=1e-6)
    assert probed.outputs[1] >= 0.9 > probed.before[1]


def test_what_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="is no constraint file, run, model"):
        Opened.of("policy.pt", None, None)
    with pytest.raises(InvalidRulebook, match="does not exist"):
        Opened.of("nothing", None, None)


def test_unsaved_work_of_one_file_is_not_that_of_another(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TEXT)
    (tmp_path / "b.yaml").write_text(TEXT)
    a, b = (Opened.of(str(tmp_path / name), None, None).kept for name in ("a.yaml", "b.yaml"))
    a.write("unsaved")
    assert b.read() is None
    found = a.read()
    assert found is not None
    assert found[0] == "unsaved"
    a.path.write_text("{ damaged")
    assert a.read() is None
    a.forget()
    assert not a.path.exists()


def test_array_files_come_with_a_policy_and_go_with_its_file(tmp_path: Path) -> None:
    head = TEXT.partition("constraints:")[0]
    entry = "constraints: [{name: seen, where: {states: seen.npy}, require: right >= 0.9}]\n"
    file = tmp_path / "seen.yaml"
    file.write_text(head + entry)
    np.save(tmp_path / "seen.npy", [STATE])
    assert Workbench(Opened.of(str(file), None, None).target).draw(0, head + entry, None).shapes
    book = hr.load_rulebook(file)
    policy = hr.CategoricalPolicy.mlp(book.make_environment(), hidden=[8], seed=0)
    hr.export_numpy(policy, tmp_path / "policy.npz", book)
    (tmp_path / "seen.npy").unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    opened = Opened.of(str(tmp_path / "policy.npz"), None, elsewhere / "rules.yaml")
    assert not Workbench(opened.target).draw(0, book.text, None).error
    opened.save(book.text, None, anyway=False)
    assert hr.load_rulebook(elsewhere / "rules.yaml").says_the_same_as(book)


def test_of_images_there_is_no_map_and_the_page_says_so(tmp_path: Path) -> None:
    np.save(tmp_path / "frames.npy", np.zeros((1, 4, 4, 3)))
    text = (
        "environment: CartPole-v1\nobservations: {frame: [4, 4, 3]}\nactions: [left, right]\n"
        "constraints: [{name: seen, where: {states: frames.npy}, require: right >= 0.9}]\n"
    )
    file = tmp_path / "frames.yaml"
    file.write_text(text)
    drawing = Workbench(Opened.of(str(file), None, None).target).draw(0, text, None)
    assert "the numbers of frame 4 × 4 × 3 have no names: there is no map" in drawing.error
