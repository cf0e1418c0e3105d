"""A small file to draw on, and a studio that serves it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from handrail.studio import Opened, Session
from handrail.studio.server import make_app

TEXT = """\
# Two regions and a state; comments stay where they are.
environment: {id: CartPole-v1, max_episode_steps: 50}
observations: [x, x_dot, phi, phi_dot]
actions: [left, right]
constraints:
  - name: push right  # when it leans right
    region: {x: [-1, 1], x_dot: 0, phi: [0.1, 0.2], phi_dot: [-0.1, 0.1]}
    require: right >= 0.9

  - name: push left
    region:
      x: 0
      x_dot: 0
      polytope:
        of: [phi, phi_dot]
        vertices: [[-0.3, -0.1], [-0.1, -0.1], [-0.2, 0.1]]
    require: left >= 0.9

  - name: at rest
    where: {x: 0, x_dot: 0, phi: 0.05, phi_dot: [0, 0.02]}
    require: 0.3 <= right <= 0.7
settings:
  network: {hidden: [32]}
picture:
  across: phi
  up: phi_dot
  across_range: [-0.4, 0.4]
  up_range: [-0.4, 0.4]
  action: right
"""

TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unsaved work of tests is kept apart from that of people."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


class Studio:
    """A session that is served in a thread, and its process of mathematics."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.session = Session(Opened.of(str(file), None, None))
        config = uvicorn.Config(None, port=0, log_level="critical", ws="websockets-sansio")  # type: ignore[arg-type]
        listening = config.bind_socket()
        self.port = listening.getsockname()[1]
        config.app = make_app(self.session, TOKEN, self.port)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([listening],), daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/{TOKEN}/"

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(20)


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    file = tmp_path_factory.mktemp("studio") / "lean.yaml"
    file.write_text(TEXT)
    served = Studio(file)
    yield served
    served.close()
