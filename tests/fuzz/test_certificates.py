"""Certificates that somebody altered and sealed again: refused by name, none of them crashes."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import handrail as hr
from handrail.errors import InvalidCertificate
from handrail.proof import verify_certificates, write_certificates
from tests.conftest import small_policy

RULES = [
    hr.AtLeast(0.1, 0, hr.Box([-0.5, 0.0, -0.2], [0.5, 0.0, 0.2]), name="on the box"),
    hr.AtMost(0.9, 1, hr.Points([[0.1, 0.2, 0.3]]), name="at a point"),
    hr.Between(0.05, 0.95, 1, hr.Ball([0.0, 0.0, 0.1], 0.05), name="in a ball"),
]


VALUES: list[Any] = [
    *(None, 0, 1, -1, 0.5, 1e-9, 1e9, -0.0, True, False, "", "x", "certified", "counterexample"),
    *([], {}, [1], [[]], {"a": 1}, float("nan"), float("inf"), "\ud800", 10**400, "float32"),
]


def sealed(document: dict[str, Any]) -> bytes:
    def text(values: Any) -> str:
        return json.dumps(values, sort_keys=True, ensure_ascii=False)

    digest = hashlib.sha256(text(document).encode("utf8", "surrogatepass")).hexdigest()
    return text({**document, "sha256": digest}).encode("utf8", "surrogatepass")


def paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if before:
        yield before
    listed = value if isinstance(value, list) else []
    parts = value if isinstance(value, dict) else dict(enumerate(listed))
    for key, part in parts.items():
        yield from paths(part, (*before, key))


def mutant(genuine: dict[str, Any], chance: random.Random) -> dict[str, Any] | None:
    """One part replaced, removed, doubled or nudged; None if that changes nothing."""
    altered = copy.deepcopy(genuine)
    *way, last = chance.choice(list(paths(genuine)))
    parent: Any = altered
    for key in way:
        parent = parent[key]
    change = chance.choice(["replace", "replace", "remove", "add", "nudge", "nest"])
    if change == "replace":
        parent[last] = chance.choice(VALUES)
    elif change == "remove":
        del parent[last]
    elif change == "nest":
        parent[last] = [parent[last]]
    elif change == "nudge" and isinstance(parent[last], float):
        parent[last] *= 1.0 + chance.choice([1e-9, -1e-9, 0.1])
    elif isinstance(parent, dict):
        parent["more"] = chance.choice(VALUES)
    else:
        parent.append(parent[last])
    return None if sealed(altered) == sealed(genuine) else altered


def refuse_all(count: int, folder: Path) -> None:
    policy, path = small_policy(3, 3), folder / "certificate.json"
    found = [hr.certify(policy, rule) for rule in RULES]
    assert all(one.certified for one in found)
    write_certificates(path, policy, RULES, found)
    genuine = json.loads(path.read_text())
    del genuine["sha256"]
    assert sealed(genuine) == path.read_bytes()
    proven = dict(zip((rule.name for rule in RULES), found, strict=True))
    chance = random.Random(0)
    for _ in range(count):
        altered = mutant(genuine, chance)
        if altered is None:
            continue
        path.write_bytes(sealed(altered))
        with pytest.raises(InvalidCertificate):
            # Proving again gives the same: the proofs themselves are tested elsewhere.
            verify_certificates(path, policy, RULES, prove=lambda rule: proven[rule.name])


def test_altered_certificates_are_refused(tmp_path: Path) -> None:
    refuse_all(200, tmp_path)


@pytest.mark.slow
def test_many_altered_certificates_are_refused(tmp_path: Path) -> None:
    refuse_all(2_000, tmp_path)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b'{"sha256":1,"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b"", "is damaged"),
        (b"[]", "is not a file that Handrail sealed"),
        (b"\0" * 100, "is damaged"),
        (b'{"sha256":1,"a":' + b"9" * 5000 + b"}", "is damaged"),
        (b'{"a":"\\ud800","sha256":"x"}', "is damaged"),
        (b'{"a":NaN,"sha256":"x"}', "is damaged"),
        (b" " * (2**24 + 1), "has more than 16,777,216 bytes"),
    ],
    ids=["deep", "empty", "list", "zeros", "digits", "surrogate", "nan", "huge"],
)
def test_files_that_are_no_certificates(content: bytes, text: str, tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    path.write_bytes(content)
    with pytest.raises(InvalidCertificate, match=text):
        verify_certificates(path, small_policy(3, 3), RULES)


def test_the_tolerance_of_a_later_constraint_is_not_for_the_file_to_say(tmp_path: Path) -> None:
    policy, path = small_policy(3, 3), tmp_path / "certificate.json"
    rules = [*RULES[:2], hr.AtLeast(0.9, 0, hr.Box([-1.0] * 3, [1.0] * 3), name="too much")]
    forged = [hr.certify(policy, rule, tolerance=float(rule is rules[-1])) for rule in rules]
    assert all(one.certified for one in forged)
    write_certificates(path, policy, rules, forged)
    with pytest.raises(InvalidCertificate, match=r"'too much' was .* tolerance of 1\.0, not of 0"):
        verify_certificates(path, policy, rules)
