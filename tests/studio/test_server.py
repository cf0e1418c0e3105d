"""Who is let in, and what a page that goes mad can do: nothing."""

from __future__ import annotations

import http.client
import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.studio.conftest import TEXT, TOKEN, Studio


def fetched(studio: Studio, path: str, **headers: str) -> tuple[int, Message, str]:
    """The status, the headers and the text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=10)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def status(studio: Studio, path: str, **headers: str) -> int:
    return fetched(studio, path, **headers)[0]


@contextmanager
def socket(studio: Studio, token: str = TOKEN, **headers: str) -> Iterator[ClientConnection]:
    given = {"Origin": f"http://127.0.0.1:{studio.port}", **headers}
    address = f"ws://127.0.0.1:{studio.port}/{token}/socket"
    with connect(address, additional_headers=given, max_size=None) as page:
        yield page


def heard(page: ClientConnection, kind: str, seconds: float = 60.0, **fields: Any) -> Any:
    """The next answer of a kind with these fields."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        answer = json.loads(page.recv(timeout=seconds))
        if answer["kind"] == kind and fields.items() <= answer.items():
            return answer
    raise TimeoutError(kind)


def test_only_the_token_opens_the_page(studio: Studio) -> None:
    assert status(studio, f"/{TOKEN}/") == 200
    assert status(studio, f"/{TOKEN}/main.js") == 200
    for path in ("/", "/main.js", f"/{TOKEN[:-1]}/", f"/{TOKEN}x/", "/static/main.js"):
        assert status(studio, path) == 404
    for path in ("../session.py", "..%2fsession.py", "tsconfig.json", "nothing.js", "%00"):
        assert status(studio, f"/{TOKEN}/{path}") == 404


def test_other_names_of_this_computer_are_refused(studio: Studio) -> None:
    """A page of somebody else whose name leads here (DNS rebinding) asks with its own name."""
    assert status(studio, f"/{TOKEN}/", Host=f"localhost:{studio.port}") == 200
    assert status(studio, f"/{TOKEN}/", Host=f"evil.example:{studio.port}") == 404
    assert status(studio, f"/{TOKEN}/", Host="127.0.0.1:1") == 404
    assert status(studio, f"/{TOKEN}/", Origin="http://evil.example") == 404


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}],
)
def test_a_socket_of_another_page_is_refused(studio: Studio, headers: dict[str, str]) -> None:
    with pytest.raises((InvalidStatus, ConnectionClosed)), socket(studio, **headers) as page:
        page.recv(timeout=5)


def test_a_socket_needs_the_token_too(studio: Studio) -> None:
    with pytest.raises((InvalidStatus, ConnectionClosed)), socket(studio, "guess") as page:
        page.recv(timeout=5)


def test_nothing_of_elsewhere_is_loaded(studio: Studio) -> None:
    _, headers, page = fetched(studio, f"/{TOKEN}/")
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in page


def test_a_text_is_drawn_held_and_proven(studio: Studio) -> None:
    with socket(studio) as page:
        document = heard(page, "document")
        assert document["text"] == TEXT
        revision = document["revision"]
        assert heard(page, "drawing", revision=revision)["names"]["actions"] == ["left", "right"]
        assert heard(page, "held", revision=revision)["satisfied"]
        proof = heard(page, "proof", revision=revision)
        assert [one["status"] for one in proof["verdicts"]] == ["proven"] * 3
        path = ["constraints", 0, "region", "phi", 0]
        page.send(json.dumps({"kind": "edit", "values": [{"path": path, "value": 0.12}]}))
        changed = heard(page, "document", revision=revision + 1)
        assert changed["text"] == TEXT.replace("phi: [0.1, 0.2]", "phi: [0.12, 0.2]")
        assert not changed["saved"]
        assert heard(page, "held", revision=revision + 1)["satisfied"]
        page.send(json.dumps({"kind": "undo"}))
        assert heard(page, "document", revision=revision + 2)["text"] == TEXT


def test_while_a_hand_drags_nothing_queues_up(studio: Studio) -> None:
    with socket(studio) as page:
        first = heard(page, "document")["revision"]
        path = ["constraints", 0, "region", "phi", 0]
        for step in range(300):
            value = 0.05 + 0.0001 * step
            message = {"kind": "edit", "gesture": 1, "resting": step == 299}
            page.send(json.dumps({**message, "values": [{"path": path, "value": value}]}))
        answers: list[int] = []
        while not answers or answers[-1] < first + 300:
            answers.append(heard(page, "held")["revision"])
        assert answers == sorted(answers)
        assert len(answers) < 300
        page.send(json.dumps({"kind": "undo"}))
        assert heard(page, "document", revision=first + 301)["text"] == TEXT


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_messages_of_nonsense(studio: Studio, count: int) -> None:
    """They end the socket that says them, and nothing else."""
    chance = random.Random(count)
    good = ['{"kind": "undo"}', '{"kind": "probe", "state": [0, 0, 0, 0]}']
    said = 0
    while said < count:
        try:
            with socket(studio) as page:
                for _ in range(count - said):
                    page.send(_nonsense(chance, good))
                    said += 1
        except ConnectionClosed:
            said += 1
    with socket(studio) as page:
        document = heard(page, "document")
        assert document["text"] == TEXT
        page.send(json.dumps({"kind": "probe", "state": [0.0, 0.0, 0.1, 0.0]}))
        assert len(heard(page, "probed", state=[0.0, 0.0, 0.1, 0.0])["outputs"]) == 2


def _nonsense(chance: random.Random, good: list[str]) -> str | bytes:
    kind = chance.randrange(5)
    if kind == 0:
        return chance.randbytes(chance.randrange(200))
    if kind == 1:
        return chance.choice(good)
    if kind == 2:
        message = chance.choice(good)
        return message[: chance.randrange(len(message))]
    value: Any = chance.choice([None, [], {}, "x", -1, 1e308, [[[]]], "<script>"])
    if kind == 3:
        return json.dumps({"kind": chance.choice(["edit", "add", "look", "undo"]), "values": value})
    path = [chance.choice(["constraints", "a", 0, -1, 99]) for _ in range(chance.randrange(1, 5))]
    return json.dumps({"kind": "edit", "values": [{"path": path, "value": "x"}]})
