"""A session: texts and their history, unsaved work, shapes that become entries of the file."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, TypeVar, get_args

import pytest
from pydantic import BaseModel

from handrail.report import Plane
from handrail.rulebook import parse
from handrail.studio import Opened, Session
from handrail.studio.cards import names_of
from handrail.studio.draft import Draft
from handrail.studio.engine import Ended, Engine
from handrail.studio.jobs import AnswerText, ExportPolicy
from handrail.studio.messages import Document, Drawing, Held, Note, Probed, RunsSeen, Trained
from handrail.studio.requests import Add, Request, parsed
from handrail.studio.session import Outbox, drawn_entry
from handrail.studio.stage import view_of
from handrail.studio.trainer import FindRuns, FoundRuns, TellRun, curve_of
from tests.studio.conftest import TEXT

BOOK = parse(TEXT, "lean.yaml")
SIGNALS = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="processes are looked for where Linux has them"
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file, and an engine that does nothing."""
    monkeypatch.setattr(Engine, "submit", lambda *_: None)
    path = tmp_path / "lean.yaml"
    path.write_text(TEXT)
    return path


T = TypeVar("T", bound=BaseModel)


class Listener:
    """A page that remembers what it was told."""

    def __init__(self, session: Session) -> None:
        self.told: list[BaseModel] = []
        session.join(self.told.append)

    @property
    def document(self) -> Document:
        return self.last(Document)

    def last(self, kind: type[T]) -> T:
        return next(one for one in reversed(self.told) if isinstance(one, kind))

    def notes(self, what: str) -> list[str]:
        return [one.text for one in self.told if isinstance(one, Note) and one.what == what]


def ask(session: Session, **request: Any) -> Note | None:
    return session.receive(parsed(json.dumps(request)))


def test_a_text_is_changed_undone_and_saved(file: Path) -> None:
    session = Session(Opened.of(str(file), None, None))
    page = Listener(session)
    name = ["constraints", 0, "name"]
    assert ask(session, kind="edit", values=[{"path": name, "value": "go"}]) is None
    assert "name: go  # when it leans right" in page.document.text
    assert (page.document.saved, page.document.can_undo) == (False, True)
    ask(session, kind="undo")
    assert (page.document.text, page.document.saved) == (TEXT, True)
    ask(session, kind="redo")
    ask(session, kind="remove", path=["constraints"], index=2)
    ask(session, kind="save")
    assert page.document.saved
    assert parse(file.read_text(), "lean.yaml").source.data["constraints"][0]["name"] == "go"
    assert len(parse(file.read_text(), "lean.yaml").constraints) == 2


def test_what_cannot_be_done_is_said_to_whoever_asks(file: Path) -> None:
    session = Session(Opened.of(str(file), None, None))
    page = Listener(session)
    refused = ask(session, kind="edit", values=[{"path": ["nothing"], "value": 1}])
    assert refused is not None
    assert refused.what == "refused"
    assert "There is no number or text" in refused.text
    file.write_text("of somebody else")
    told = ask(session, kind="save")
    assert told is not None
    assert (told.what, told.text) == (
        "taken",
        f"{file} exists and is not what was opened here: somebody else has written it.",
    )
    ask(session, kind="save", anyway=True)
    assert file.read_text() == TEXT
    assert page.document.text == TEXT


def test_a_policy_is_exported_beside_the_file_under_the_name_that_is_shown(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[Any] = []
    monkeypatch.setattr(Engine, "submit", lambda _, job: jobs.append(job))
    session = Session(Opened.of(str(file), None, None))
    names = [one.name for one in Listener(session).document.exports]
    assert names == [str(file.with_suffix(one)) for one in (".onnx", ".npz", ".safetensors")]
    assert ask(session, kind="export", format="numpy", prove=True) is None
    assert jobs == [ExportPolicy(0, file.with_suffix(".npz"), "numpy", prove=True)]
    file.with_suffix(".npz").write_bytes(b"of somebody else")
    told = ask(session, kind="export", format="numpy")
    assert told is not None
    assert (told.what, told.text) == ("taken", f"{file.with_suffix('.npz')} exists already.")
    ask(session, kind="export", format="numpy", anyway=True)
    assert len(jobs) == 2


def test_a_run_to_compare_with_is_one_of_those_beside_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[Any] = []
    monkeypatch.setattr(Engine, "submit", lambda _, job: jobs.append(job))
    session = Session(Opened.of(str(file), None, None), compared=Path("elsewhere"))
    asyncio.run(begin(session))
    assert [one for one in jobs if isinstance(one, FindRuns | TellRun)] == [
        TellRun(Path("elsewhere")),
        FindRuns(file.parent / "runs"),
    ]
    beside = file.parent / "runs" / "lean" / "seed-0"
    session._on_report(FoundRuns([beside]))
    session._on_report(curve_of("run elsewhere", 0, [], "done"))
    page = Listener(session)
    assert page.last(RunsSeen) == RunsSeen(runs=["elsewhere", str(beside)], compared="elsewhere")
    assert ask(session, kind="compare", run=str(beside)) is None
    assert jobs[-1] == TellRun(beside)
    refused = ask(session, kind="compare", run="/etc")
    assert refused is not None
    assert refused.text == "There is no run /etc to compare with."
    ask(session, kind="compare")
    assert page.last(RunsSeen).compared == ""
    later = Listener(session)
    assert [one for one in later.told if isinstance(one, Trained)] == []


def test_whoever_looks_around_meanwhile_sees_the_last_good_text(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[Any] = []
    monkeypatch.setattr(Engine, "submit", lambda _, job: jobs.append(job))
    session = Session(Opened.of(str(file), None, None))
    view = view_of(Plane.of(BOOK))
    look = {"kind": "look", "view": view.model_dump()}
    session._on_report(Drawing(revision=0, names=names_of(BOOK), view=view))
    ask(session, kind="text", text=TEXT + "# more\n")
    ask(session, kind="text", text="nonsense")
    session._on_report(Drawing(revision=1, names=names_of(BOOK), view=view))
    session._on_report(Drawing(revision=2, error="no", line=1))
    for _ in range(2):
        ask(session, **look)
        assert jobs.pop() == AnswerText(1, TEXT + "# more\n", view, resting=True)
        session._on_report(Drawing(revision=1, names=names_of(BOOK), view=view))
    ask(session, kind="text", text=TEXT)
    assert jobs[-1] == AnswerText(3, TEXT, view, resting=True)
    ask(session, **look)
    assert jobs[-1] == AnswerText(3, TEXT, view, resting=True)


async def begin(session: Session) -> None:
    session.begin()


def test_unsaved_work_is_kept_and_offered(file: Path) -> None:
    async def work() -> None:
        session = Session(Opened.of(str(file), None, None))
        session.begin()
        ask(session, kind="text", text=TEXT + "# more\n")
        session.close()

    asyncio.run(work())
    session = Session(Opened.of(str(file), None, None))
    page = Listener(session)
    assert page.document.text == TEXT
    assert len(page.notes("kept")) == 1
    ask(session, kind="restore")
    assert page.document.text == TEXT + "# more\n"
    ask(session, kind="save")
    again = Session(Opened.of(str(file), None, None))
    assert Listener(again).notes("kept") == []


def test_work_that_nobody_wants_is_discarded(file: Path) -> None:
    opened = Opened.of(str(file), None, None)
    opened.kept.write("old work")
    session = Session(opened)
    assert len(Listener(session).notes("kept")) == 1
    ask(session, kind="discard")
    assert opened.kept.read() is None


def test_a_process_that_ends_is_told_of(file: Path) -> None:
    session = Session(Opened.of(str(file), None, None))
    page = Listener(session)
    session._on_report(Ended(-9))
    assert page.notes("failed")[0].startswith("The process that computes has ended (-9).")


@pytest.mark.parametrize(
    ("drawn", "place"),
    [
        ({"shape": "point", "points": [[0.3, 0.1]]}, {"where": {"phi": 0.3, "phi_dot": 0.1}}),
        (
            {"shape": "box", "points": [[0.3, 0.1], [0.25, 0.2]]},
            {"region": {"phi": [0.25, 0.3], "phi_dot": [0.1, 0.2]}},
        ),
        (
            {"shape": "ball", "points": [[0.3, 0.1]], "radius": 0.02},
            {"region": {"ball": {"of": ["phi", "phi_dot"], "centre": [0.3, 0.1], "radius": 0.02}}},
        ),
        (
            {"shape": "polygon", "points": [[0.3, 0], [0.4, 0], [0.3, 0.2]]},
            {"region": {"polytope": {"of": ["phi", "phi_dot"]}}},
        ),
        (
            {"shape": "line", "points": [[0.3, 0], [0.4, -0.2]]},
            {"region": {"curve": {"from": 0, "to": 1, "phi": "0.3 + 0.1*t"}}},
        ),
    ],
)
def test_what_is_drawn_is_an_entry_of_the_file(
    file: Path, drawn: dict[str, Any], place: dict[str, Any]
) -> None:
    request = Add(kind="add", **drawn)
    entry = drawn_entry(request, names_of(BOOK), view_of(Plane.of(BOOK)), {"rule 1"})
    assert (entry["name"], entry["require"]) == ("rule 2", "right >= 0.95")
    assert_within(place, entry)
    text = Draft(TEXT, "lean.yaml").with_entry(entry).text
    assert parse(text, "lean.yaml").constraints[-1].name == "rule 2"


def assert_within(part: dict[str, Any], whole: dict[str, Any]) -> None:
    for key, value in part.items():
        if isinstance(value, dict):
            assert_within(value, whole[key])
        else:
            assert whole[key] == value


def test_a_slow_page_gets_the_newest_of_each_kind() -> None:
    def held(revision: int) -> Held:
        return Held(
            revision=revision, satisfied=True, words="", influence="", verdicts=[], seconds=0.1
        )

    async def listen() -> list[BaseModel]:
        outbox = Outbox()
        for revision in range(100):
            outbox.put(held(revision))
        outbox.put(Probed(revision=0, state=[0.0], outputs=[1.0], before=[0.5]))
        return [await outbox.take(), await outbox.take()]

    first, second = asyncio.run(listen())
    assert isinstance(first, Held)
    assert first.revision == 99
    assert isinstance(second, Probed)


def is_running(process: str) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


@SIGNALS
def test_ctrl_c_ends_everything(tmp_path: Path) -> None:
    (tmp_path / "lean.yaml").write_text(TEXT)
    command = [sys.executable, "-m", "handrail", "studio", "lean.yaml", "--no-browser"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.readline()
    assert re.fullmatch(r"Studio: http://127\.0\.0\.1:\d+/[\w-]{32}/\n", said)
    children: list[str] = []
    while not children:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    process.stdout.close()
    end = time.monotonic() + 20.0  # Python's own helper notices the end of its parent by itself
    while any(is_running(child) for child in children):
        assert time.monotonic() < end, children
        time.sleep(0.05)


def test_every_request_of_a_page_is_answered() -> None:
    dispatch = Session.__dict__["_do"].dispatcher.dispatch
    nobody = dispatch(object)
    assert [one.__name__ for one in get_args(Request) if dispatch(one) is nobody] == []
