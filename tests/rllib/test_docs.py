"""What the docs say of handrail.rllib, where it is installed."""

from __future__ import annotations

import subprocess
import sys

import handrail.rllib
from tests.support.paths import ROOT
from tests.support.scripts import load_script

check = load_script("docs/check.py")


def printed(code: str) -> str:
    """By a process of its own: Ray changes the classes that it makes actors of."""
    script = f"from tests.support.scripts import load_script\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_page_is_up_to_date() -> None:
    page = printed(
        "reference = load_script('docs/reference_pages.py')\n"
        "print(*reference.package_pages(reference.ELSEWHERE).values(), end='')"
    )
    written = (ROOT / "docs" / "reference" / "rllib.md").read_text(encoding="utf-8")
    assert written == page, "out of date, run: python docs/reference_pages.py rllib"


def test_the_names_that_sources_mention_exist() -> None:
    for file in (ROOT / "src" / "handrail" / "rllib").glob("*.py"):
        assert check.unknown_names(file.read_text(encoding="utf-8")) == []
    assert set(handrail.rllib.__all__) <= set(vars(handrail.rllib))


def test_the_guide_runs() -> None:
    told = printed(
        "check = load_script('docs/check.py')\n"
        "print(check.run_examples(check.ROOT / 'docs' / 'guides' / 'rllib.md'))"
    )
    assert told.count("as PPO left it") == 2
    assert told.splitlines()[-1] == "1"


_IMPORTS = """
import handrail, sys
assert not any(name.split(".")[0] == "ray" for name in sys.modules)
sys.modules["ray"] = None  # as if it were not installed
import handrail.rllib
"""


def test_handrail_works_without_it_and_says_how_to_get_it() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _IMPORTS], capture_output=True, text=True, check=False
    )
    assert 'handrail.rllib needs RLlib: pip install "handrail[rllib]"' in run.stderr
