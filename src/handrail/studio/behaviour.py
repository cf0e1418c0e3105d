"""What a policy does: episodes played, in a process of its own.

Environments are other people's code: they may hang, crash or take their time. Here they can do so
without anybody waiting for them.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

from typing_extensions import override

from handrail.errors import HandrailError
from handrail.studio.engine import Inbox, Job, Report
from handrail.studio.jobs import Weights
from handrail.studio.messages import Played, Trail

if TYPE_CHECKING:  # torch is for the process that computes
    import gymnasium as gym

    from handrail.learning import Episode
    from handrail.policies import Policy
    from handrail.studio.workbench import Workbench

_TRAILS, _STEPS_OF_A_TRAIL = 1, 1000

# Seconds between two reports: a page needs no more.
_BETWEEN = 0.15


@final
@dataclass(frozen=True)
class PlayEpisodes(Job):
    """Play the same starts with the policy as it is held, and with the one before.

    Attributes:
        text: of the constraint file.
        weights: of both policies.
        episodes: how many, of each.
        deterministic: always the most likely action.
        film: whether to film the first one.
    """

    text: str
    weights: Weights
    episodes: int
    deterministic: bool
    film: bool

    urgency: ClassVar[int] = 0

    @override
    def run(self, bench: Workbench, inbox: Inbox, report: Report) -> None:
        book, policy = bench.on_stage(self.text, self.weights.held)
        _, before = bench.on_stage(self.text, self.weights.before)
        watch = _Watch(self.episodes, report)
        env = book.make_environment()
        try:
            for number in range(self.episodes):
                for one, is_before in ((policy, False), (before, True)):
                    if inbox.stopped.is_set():
                        break
                    watch.saw(self._episode(env, one, book.settings.seed, number), is_before)
        finally:
            env.close()
        watch.end(self._film(book.make_environment, policy, book.settings.seed))

    def _episode(self, env: gym.Env[Any, Any], policy: Policy, seed: int, number: int) -> Episode:
        """As `evaluate` plays it."""
        from handrail.learning import EVALUATION, Start, drawing, greedy, play  # noqa: PLC0415
        from handrail.policies import fitting  # noqa: PLC0415

        start = Start.of(seed, number, EVALUATION)
        act = greedy(policy) if self.deterministic else drawing(policy, start.rng)
        return play(fitting(env), act, start.environment)

    def _film(
        self, make: Callable[[str | None], gym.Env[Any, Any]], policy: Policy, seed: int
    ) -> str:
        """Empty where nobody wants one, or the environment cannot be seen."""
        if not self.film:
            return ""
        from handrail.report import filmed  # noqa: PLC0415

        try:
            content, _ = filmed(make("rgb_array"), policy, seed, 1, self.deterministic)
        except (HandrailError, ValueError):
            return ""
        return base64.b64encode(content).decode()


@final
class _Watch:
    """Tells the page what was played so far, not too often."""

    def __init__(self, wanted: int, report: Report) -> None:
        self._played = Played(wanted=wanted, scores=[], scores_before=[])
        self._report = report
        self._told = 0.0

    def saw(self, episode: Episode, before: bool) -> None:
        """One more."""
        played = self._played
        key = "scores_before" if before else "scores"
        scores = [*getattr(played, key), episode.score]
        trails = played.trails
        if len(scores) <= _TRAILS:
            trails = [*trails, _trail(episode, before)]
        self._played = played.model_copy(update={key: scores, "trails": trails})
        if time.monotonic() - self._told > _BETWEEN:
            self._told = time.monotonic()
            self._report(self._played)

    def end(self, film: str) -> None:
        """All of them."""
        now, then = self._played.scores, self._played.scores_before
        words = ""
        if now and then:
            words = f"{sum(now) / len(now):.1f}, before {sum(then) / len(then):.1f}"
        self._report(self._played.model_copy(update={"film": film, "done": True, "words": words}))


def _trail(episode: Episode, before: bool) -> Trail:
    """Of a long one, its beginning."""
    n = _STEPS_OF_A_TRAIL
    states = episode.states.reshape(len(episode.states), -1)[:n]
    actions = episode.actions.reshape(len(episode.actions), -1)[:n]
    return Trail(states=states.tolist(), actions=actions.astype(float).tolist(), before=before)
