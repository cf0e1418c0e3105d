"""The schema: sound, described and published; the bundled files and the docs fit it."""

from __future__ import annotations

import json
import re
from io import BytesIO
from typing import Any

import jsonschema
import numpy as np
import pytest
import yaml

from handrail.rulebook import (
    bundled,
    load_rulebook,
    parse,
)
from handrail.rulebook.schema import json_schema
from handrail.rulebook.source import read
from handrail.settings import Everywhere, MaximumDeviation, MaximumReturn, RunSettings
from tests.support.constraint_files import (
    HEAD,
    ONE,
    VALIDATOR,
    in_region,
)
from tests.support.paths import ROOT
from tests.support.scripts import load_script

PAGE = ROOT / "docs" / "reference" / "constraint-files.md"

BOX = {"x": [0, 1], "x_dot": 0, "phi": 0, "phi_dot": 0}

BALL = {"of": ["x"], "centre": [0], "radius": 1}

CURVE = {"from": 0, "to": 1, "phi": "t"}

REGION = {"name": "a", "region": BOX, "require": "left >= 0.5"}


@pytest.mark.parametrize("name", bundled())
def test_bundled_files_fit_the_schema(name: str) -> None:
    VALIDATOR.validate(load_rulebook(name).source.data)


@pytest.mark.parametrize(
    "change",
    [
        {"environment": 3},
        {"environment": {"max_episode_steps": 5}},
        {"observations": "x"},
        {"observations": ["pole angle"]},
        {"actions": ["left"]},
        {"actions": {"torque": [-2, 2, 3]}},
        {"actions": {"1bad": [-2, 2]}},
        {"constraints": []},
        {"constraints": [{"name": "a", "require": "left >= 0.5"}]},
        {"constraints": [{"name": "a", "where": {"x": "zero"}}]},
        {"constraints": [{"name": "a", "where": {"x": {"from": 0, "to": 1}}}]},
        {"constraints": [{"name": "a", "where": {"x": 0}, "require": 3}]},
        {"constraints": [REGION | {"where": {"x": 0}}]},
        {"constraints": [REGION | {"table": "x"}]},
        {"constraints": [REGION | {"region": [BOX]}]},
        {"constraints": [REGION | {"region": BOX | {"x": [0, 1, 2]}}]},
        {"constraints": [REGION | {"region": BOX | {"x": "t"}}]},
        {"constraints": [REGION | {"region": BOX | {"ball": {"of": ["x"], "centre": [0]}}}]},
        {"constraints": [REGION | {"region": BOX | {"ball": BALL, "curve": CURVE}}]},
        {"constraints": [REGION | {"region": BOX | {"polytope": {"of": ["x", "phi"]}}}]},
        {"constraints": [REGION | {"region": BOX | {"curve": CURVE | {"phi": [0]}}}]},
        {"settings": {"selection": "maximum"}},
        {"settings": {"selection": {"strategy": "maximum_return", "prove": True}}},
        {"settings": {"step_size": 0}},
        {"settings": {"network": {"activation": "rellu"}}},
        {"pass_mark": "high"},
        {"pasmark": 3},
    ],
)
def test_wrong_types_do_not_fit_the_schema(change: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid(load_rulebook("cartpole").source.data | change)


def test_the_schema_is_sound_described_and_published() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    models = [json_schema(), *json_schema()["$defs"].values()]
    assert all(field["description"] for model in models for field in model["properties"].values())
    published = json.loads((ROOT / "docs" / "reference" / "constraints.schema.json").read_text())
    assert published == json_schema(), (
        "run: handrail schema > docs/reference/constraints.schema.json"
    )


def test_yaml_in_the_docs_is_correct() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    complete = [block for block in blocks if "environment:" in block]
    assert len(complete) >= 2
    grass = BytesIO()
    np.save(grass, np.zeros((1, 96, 96, 3), dtype=np.uint8))
    for block in complete:
        rules = parse(block, "docs.yaml", {"grass.npy": grass.getvalue()})
        VALIDATOR.validate(rules.source.data)
        rules.make_environment().close()
    for block in blocks:
        assert read(block, "docs.yaml").data
    regions = [
        read(block, "docs.yaml").data["region"] for block in blocks if "\nregion:" in f"\n{block}"
    ]
    assert len(regions) >= 6
    for region in regions:
        parse(in_region(json.dumps(region)), "docs.yaml")
    changes = [block for block in blocks if block.startswith("settings:")]
    assert len(changes) >= 3
    for block in changes:
        parse(HEAD + block + ONE, "docs.yaml")


def test_the_docs_list_every_setting_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `([\w.]+)` \| `(.*?)` \|", PAGE.read_text(), re.MULTILINE))
    fields = {**RunSettings.model_fields}
    network = fields.pop("network").default
    selection = fields.pop("selection").default
    defaults = {name: field.default for name, field in fields.items()}
    defaults["selection"] = selection.strategy
    for model in (Everywhere, MaximumReturn, MaximumDeviation):
        options = {f"selection.{name}": value for name, value in model().model_dump().items()}
        options.pop("selection.strategy")
        defaults |= options
    defaults |= {f"network.{name}": value for name, value in network.model_dump().items()}
    assert {name: yaml.load(text, yaml.BaseLoader) for name, text in rows.items()} == {
        name: yaml.load(json.dumps(value), yaml.BaseLoader) for name, value in defaults.items()
    }


def test_the_docs_quote_a_real_error_and_run(capsys: pytest.CaptureFixture[str]) -> None:
    check = load_script("docs/check.py")
    assert check.run_examples(PAGE) >= 2
    assert check.broken_links(PAGE) == []
    quoted = re.search(r"^```\n(push\.yaml, line .*?)^```", PAGE.read_text(), re.M | re.S)
    assert quoted is not None
    assert quoted[1] in capsys.readouterr().out
