"""Certificates as files: genuine ones verify, anything else is rejected by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import handrail as hr
from handrail._storage import read_sealed, write_sealed
from handrail.proof.certificate_file import verify_certificates, weights_hash, write_certificates
from handrail.proof.judgement import certify
from tests.conftest import small_policy, spaces

REGION = hr.Box([-0.5, 0.0, -0.2], [0.5, 0.0, 0.2])
FILE = """
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


def rules(bound: float = 0.1, region: hr.Region = REGION) -> list[hr.Constraint]:
    return [
        hr.AtLeast(bound, 0, region, name="on the box"),
        hr.AtMost(0.9, 1, hr.Points([[0.1, 0.2, 0.3]]), name="at a point"),
    ]


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, hr.CategoricalPolicy]:
    policy = small_policy(3, 3)
    path = tmp_path / "certificate.json"
    found = [certify(policy, rule) for rule in rules()]
    assert all(one.certified for one in found)
    write_certificates(path, policy, rules(), found)
    return path, policy


def test_a_genuine_certificate_is_proven_again(certificate: Any) -> None:
    path, policy = certificate
    again = verify_certificates(path, policy, rules())
    assert [one.name for one in again] == ["on the box", "at a point"]
    assert all(one.certified for one in again)


def test_what_a_certificate_binds(certificate: Any) -> None:
    path, policy = certificate
    document = json.loads(path.read_text())
    assert document["weights"] == weights_hash(policy)
    assert document["version"] == hr.__version__
    assert document["dtype"] == "float64"
    assert "float64" in document["arithmetic"]
    first = document["certificates"][0]
    assert first["place"] == {"shape": "box", "low": [-0.5, 0.0, -0.2], "high": [0.5, 0.0, 0.2]}
    assert (first["lower"], first["upper"], first["tolerance"]) == (0.1, None, 0.0)
    assert first["weights"] == [1.0, 0.0, 0.0]
    assert first["lowest"] >= 0.1


def test_every_altered_byte_is_rejected(certificate: Any) -> None:
    path, policy = certificate
    content = path.read_bytes()
    for position in range(0, len(content), 7):
        altered = bytearray(content)
        altered[position] ^= 1
        path.write_bytes(bytes(altered))
        with pytest.raises(hr.errors.InvalidCertificate, match=r"damaged|altered"):
            verify_certificates(path, policy, rules())
    path.write_bytes(content[:-10])
    with pytest.raises(hr.errors.InvalidCertificate, match="is damaged"):
        verify_certificates(path, policy, rules())
    path.write_text("[1, 2]")
    with pytest.raises(hr.errors.InvalidCertificate, match="is not a file that Handrail sealed"):
        verify_certificates(path, policy, rules())
    with pytest.raises(hr.errors.InvalidCertificate, match="cannot be read: No such file"):
        verify_certificates(path.with_name("other"), policy, rules())


def test_every_weight_is_bound(certificate: Any) -> None:
    path, policy = certificate
    for parameter in policy.parameters:
        first = (0,) * parameter.ndim
        with torch.no_grad():
            kept = parameter[first].clone()
            parameter[first] = np.nextafter(float(kept), 2.0)
        with pytest.raises(hr.errors.InvalidCertificate, match="is about other weights"):
            verify_certificates(path, policy, rules())
        with torch.no_grad():
            parameter[first] = kept
    verify_certificates(path, policy, rules())


def test_other_constraints_are_rejected(certificate: Any) -> None:
    path, policy = certificate
    with pytest.raises(hr.errors.InvalidCertificate, match="'on the box' has another lower than"):
        verify_certificates(path, policy, rules(bound=0.05))
    smaller = hr.Box([-0.4, 0.0, -0.2], [0.5, 0.0, 0.2])
    with pytest.raises(hr.errors.InvalidCertificate, match="'on the box' has another place than"):
        verify_certificates(path, policy, rules(region=smaller))
    with pytest.raises(
        hr.errors.InvalidCertificate, match=r"about the constraints \['on the box', 'at"
    ):
        verify_certificates(path, policy, rules()[:1])
    other = [rules()[0], hr.AtMost(0.9, 1, hr.Points([[0.1, 0.2, 0.31]]), name="at a point")]
    with pytest.raises(hr.errors.InvalidCertificate, match="'at a point' has another place than"):
        verify_certificates(path, policy, other)


def forge(path: Path, change: Any) -> None:
    """Alter a certificate and seal it again, as someone who knows how would."""
    document = read_sealed(path)
    change(document)
    write_sealed(path, document)


def test_forged_certificates_are_rejected(certificate: Any) -> None:
    path, policy = certificate
    genuine = path.read_bytes()

    def first(document: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = document["certificates"][0]
        return found

    forgeries: list[tuple[Any, str]] = [
        (lambda d: first(d).update(lowest=0.999), "claims other values than can be proven again"),
        (lambda d: first(d).update(tolerance=-1.0), r"a tolerance of -1\.0, not of 0\.0"),
        (lambda d: first(d).update(tolerance=1.0), r"a tolerance of 1\.0, not of 0\.0"),
        (lambda d: first(d).update(tolerance=0), "a tolerance of 0, not of 0"),
        (lambda d: first(d).update(cells=True), r"no certificate: certificates\.0\.cells: Input"),
        (lambda d: first(d).pop("cells"), r"certificates\.0\.cells: Field required"),
        (lambda d: first(d).update(more=1), r"certificates\.0\.more: Extra inputs"),
        (lambda d: first(d).update(method="magic"), "'on the box' was not proven as the file says"),
        (lambda d: d.update(dtype="float32"), "is about another dtype than that of this policy"),
        (lambda d: first(d).update(status="counterexample"), "was counterexample, but is now"),
        (lambda d: d.update(version="9.9.9"), r"written by Handrail 9\.9\.9"),
        (lambda d: first(d).update(lowest=None), "claims other values than can be"),
    ]
    for change, text in forgeries:
        path.write_bytes(genuine)
        forge(path, change)
        with pytest.raises(hr.HandrailError, match=text):
            verify_certificates(path, policy, rules())


def test_a_false_claim_of_a_proof_is_rejected(tmp_path: Path) -> None:
    policy = small_policy(3, 3)
    hard = rules(bound=0.9)
    path = tmp_path / "certificate.json"
    found = [certify(policy, rule) for rule in hard]
    assert found[0].status == "counterexample"
    write_certificates(path, policy, hard, found)
    forge(path, lambda d: d["certificates"][0].update(status="certified", lowest=0.91))
    with pytest.raises(
        hr.errors.InvalidCertificate, match="was certified, but is now counterexample"
    ):
        verify_certificates(path, policy, hard)


def test_what_is_not_known_is_written_and_proven_again_as_far_as_it_was(tmp_path: Path) -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(3, 3), hidden=[32, 32], seed=0)
    rule = hr.AtLeast(0.2, 0, hr.Box([-3.0] * 3, [3.0] * 3), name="wide")
    path, few = tmp_path / "certificate.json", hr.Budget(cells=30)
    found = certify(policy, rule, budget=few)
    left = found.remainder
    assert left is not None
    assert 0.0 < left.proven_share < 1.0
    write_certificates(path, policy, [rule], [found])
    written = json.loads(path.read_text())["certificates"][0]
    assert written["status"] == "unknown"
    assert written["remainder"] == {
        "proven_share": left.proven_share,
        "violation": left.violation,
        "open_cells": left.open_cells,
    }

    def again(budget: hr.Budget) -> hr.Certificate:
        (one,) = verify_certificates(
            path, policy, [rule], prove=lambda each: certify(policy, each, budget=budget)
        )
        return one

    assert again(few).status == "unknown"
    with pytest.raises(hr.errors.InvalidCertificate, match="more is claimed than was proven again"):
        again(hr.Budget(cells=1))
    for claim in ({"proven_share": 0.99}, {"violation": 0.0}):
        write_certificates(path, policy, [rule], [found])
        forge(path, lambda d, c=claim: d["certificates"][0]["remainder"].update(c))
        with pytest.raises(hr.errors.InvalidCertificate, match="Allow as many cells and seconds"):
            again(few)
