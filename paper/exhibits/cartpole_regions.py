"""Section 4.1, regional constraints: figures 7 to 9, and why one state can stand for a region."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from handrail._types import Array
from handrail.policies import Policy
from handrail.report.drawing import output_over
from handrail.rulebook import load_rulebook
from handrail.runs import Run, make_policy
from handrail.tangent import tangent_kernel
from paper.drawing.learning import (
    ANOTHER,
    CERTIFIED,
    EXACT,
    OTHER,
    PAPER,
    PLAIN,
    PLAIN_OTHER,
    Line,
    Role,
    loss_figure,
    score_grid,
    violation_figure,
)
from paper.drawing.regions import carryover_figure
from paper.exhibit import (
    Claim,
    Content,
    Drawing,
    Exhibit,
    Finding,
    Table,
    interquartile_mean,
    seeds_that_pass,
    summary,
    worst_violation,
)
from paper.exhibits.cartpole import (
    LEFT,
    cartpole_plane,
    cartpole_policy_figure,
    first_met,
    met_from,
)
from paper.interval import all_of, difference, over_seeds, ratio
from paper.results import Learned, Results

_WHY_DIVERGED = (
    "In the paper's table every region has the cart anywhere on five metres of track. A step at "
    "one state of it moves the policy hardly at all at others, and further than asked for at yet "
    "others (the kernel above): within a few episodes the network is saturated on the wrong side. "
    "The run stops and says so."
)
_WHY_LOWER = (
    "The line on the left, φ̇ = -8 φ - 2, is at -0.25 rad, that on the right at 0.15. The two "
    "pushes meet between them (figure 9), so the policy balances a pole that leans to the left, "
    "and the cart drifts there. With the same line on both sides it is on par."
)
_ON_PAR = 0.95  # of the score of static constraints
_SLIGHTLY, _MOSTLY = 0.1, 0.9  # of probability, of the states
_CUTS = (-2.0, -1.5, -0.5, 0.5, 1.5, 2.0)  # of cartpole_track.yaml, in metres
_SHOWN = np.linspace(-2.5, 2.5, 6)  # positions in the table of the kernel

_TRACK: tuple[tuple[str, Role], ...] = (
    ("cartpole_track_deviation", PAPER),
    ("cartpole_track_return", OTHER),
    ("cartpole_track_exact", EXACT),
    ("cartpole_track_certified", CERTIFIED),
    ("cartpole_paper", PLAIN),
)
_READ_OTHERWISE: tuple[tuple[str, Role], ...] = (
    ("cartpole_track_mirrored_deviation", CERTIFIED),
    ("cartpole_track_thirds_deviation", ANOTHER),
    ("cartpole_regions_cut_deviation", PLAIN_OTHER),
    ("cartpole_regions_deviation", EXACT),
    ("cartpole_middle_deviation", PLAIN),
)
_BY_RETURN = (
    "cartpole_track_mirrored_return",
    "cartpole_middle_return",
    "cartpole_regions_return",
)


def _lines(results: Results, names: tuple[tuple[str, Role], ...]) -> list[Line]:
    return [Line(results.learned(name), role) for name, role in names]


def _learning(results: Results) -> Content:
    track, otherwise = _lines(results, _TRACK), _lines(results, _READ_OTHERWISE)
    learned = {line.learned.experiment.name: line.learned for line in (*track, *otherwise)}
    learned |= {name: results.learned(name) for name in _BY_RETURN}
    carryover, numbers = _carryover()
    return Content(
        claims=_claims(learned),
        findings=_findings(learned),
        drawings=(
            Drawing(
                "cartpole-regions",
                score_grid(
                    [("sub-regions along the track", track), ("other sub-regions", otherwise)]
                ),
                "Cartpole with regional constraints. Left: sub-regions along the track, as the "
                "authors' implementation has them, in the paper's setting, held exactly, and "
                "proven, beside the 18 static states. Right: maximum deviation in the paper's "
                "setting, with other sub-regions.",
            ),
            Drawing(
                "cartpole-regions-violation",
                violation_figure([*track[:2], *otherwise[:4]], until=15),
                "Worst violation at the points of the regions as each episode begins, in the "
                "paper's setting.",
            ),
            carryover,
        ),
        tables=(
            summary(
                list(learned.values()),
                "Mean ± standard deviation over the seeds that reached 100 episodes.",
            ),
            numbers,
        ),
    )


def _claims(learned: Mapping[str, Learned]) -> tuple[Claim, ...]:
    static, track = learned["cartpole_paper"], learned["cartpole_track_deviation"]
    other, thirds = learned["cartpole_track_return"], learned["cartpole_track_thirds_deviation"]
    table = learned["cartpole_regions_deviation"]
    slower = difference(_met(track), _met(static))
    return (
        Claim(
            "Regions, one state of each sub-region at a time (maximum deviation): results are on "
            "par with static constraints. Sub-regions along the track, as the authors' "
            "implementation has them.",
            f"{_outcome(track)}; with three sub-regions a side {_outcome(thirds)}; with maximum "
            f"return {_outcome(other)}; with static constraints {_outcome(static)}",
            on_par(track, static),
            _WHY_LOWER,
        ),
        Claim(
            "The same with the sub-regions of the paper's table, which are cut along φ̇.",
            f"{_outcome(table)}; with maximum return "
            f"{_outcome(learned['cartpole_regions_return'])}",
            on_par(table, static),
            _WHY_DIVERGED,
        ),
        Claim(
            "The agent with the regional constraints learns slightly slower.",
            f"constraints met on all seeds: {_from(first_met(track))} along the track, "
            f"{_from(first_met(static))} with static constraints; {slower.words()} episodes later",
            slower.above(0.0),
        ),
    )


def _findings(learned: Mapping[str, Learned]) -> tuple[Finding, ...]:
    static = learned["cartpole_paper"]
    mirrored = learned["cartpole_track_mirrored_deviation"]
    exact, certified = learned["cartpole_track_exact"], learned["cartpole_track_certified"]
    ratio_to_static = ratio(_firsts(mirrored), _firsts(static))
    return (
        Finding(
            "The two sides alike, with the line φ̇ = -8 φ ± 1.2 on both.",
            f"{_outcome(mirrored)}, {ratio_to_static.words('.2f')} times that of static "
            f"constraints; with maximum return "
            f"{_outcome(learned['cartpole_track_mirrored_return'])}",
        ),
        Finding(
            "The regions of the paper's table, each cut along the track in five parts, as "
            "handrail check says.",
            _outcome(learned["cartpole_regions_cut_deviation"]),
        ),
        Finding(
            "The regions along the track held exactly at 100 points each, and on the whole of them "
            "with a proof.",
            f"exact: {_outcome(exact)}, 195 is passed on {seeds_that_pass(exact)}, worst violation "
            f"{worst_violation(exact)}; proven: {_outcome(certified)}, 195 is passed on "
            f"{seeds_that_pass(certified)}, worst proven violation {worst_violation(certified)}",
        ),
    )


def _outcome(learned: Learned) -> str:
    """What became of it, in words."""
    firsts = f"first 100 episodes {interquartile_mean(_firsts(learned))}"
    if not learned.diverged:
        return firsts
    stopped = f"{len(learned.diverged)} of {len(learned.seeds)} seeds diverge"
    if len(learned.diverged) == len(learned.seeds):
        return f"{stopped}, after at most {_longest(learned)} episodes"
    return f"{stopped}, of the others {firsts}"


def on_par(learned: Learned, static: Learned) -> bool | None:
    """At least nearly as good as static constraints; who diverges is not."""
    if learned.diverged:
        return False
    return ratio(_firsts(learned), _firsts(static)).above(_ON_PAR)


def _met(learned: Learned) -> list[float]:
    """From which episode on each seed meets its constraints; NaN if never."""
    found = map(met_from, learned.seeds)
    return [np.nan if one is None else one for one in found]


def _carryover() -> tuple[Drawing, Table]:
    """What a step at one position does at another, in the middle of the paper's region f_s1b."""
    book = load_rulebook("cartpole_regions")
    policy = make_policy(book, book.make_environment())
    fine = np.linspace(-2.5, 2.5, 101)
    shares = _shares(policy, _SHOWN)
    drawing = Drawing(
        "cartpole-regions-kernel",
        carryover_figure(fine, _shares(policy, fine), _CUTS),
        "A fresh network, the pole at φ = -0.3, φ̇ = 0: a step that moves π(left) by 1 where the "
        "cart is at one position moves it by so much where it is at another, K(x, x') / K(x, x). "
        "Inside the dashed line at least half arrives. Squares: the sub-regions along the track; a "
        "region of the paper's table is the whole.",
    )
    rows = [
        [f"{x:g}", *(f"{share:.2f}" for share in row)]
        for x, row in zip(_SHOWN, shares, strict=True)
    ]
    header = ["moved by 1 at x", *(f"at x = {x:g}" for x in _SHOWN)]
    return drawing, Table("The same in numbers.", header, rows)


def _shares(policy: Policy, positions: Array) -> Array:
    """K(x, x') / K(x, x) of π(left) at these positions of the cart (n, n)."""
    states = np.tile([0.0, 0.0, -0.3, 0.0], (len(positions), 1))
    states[:, 0] = positions
    kernel = tangent_kernel(policy, states)[:, LEFT, :, LEFT]
    shares: Array = kernel / np.diag(kernel)[:, None]
    return shares


def _from(episode: int | None) -> str:
    return "never" if episode is None else f"from episode {episode} on"


def _longest(learned: Learned) -> int:
    return max((len(seed.scores) for seed in learned.diverged), default=0)


def _firsts(learned: Learned) -> list[float]:
    return [seed.first for seed in learned.seeds]


def _loss(results: Results) -> Content:
    names = (
        ("cartpole_track_deviation", PAPER),
        ("cartpole_track_return", OTHER),
        ("cartpole_track_mirrored_deviation", ANOTHER),
        ("cartpole_paper", PLAIN),
    )
    lines = _lines(results, names)
    track, static = lines[0].learned, lines[-1].learned
    higher = ratio(_first_losses(track), _first_losses(static))
    longer = difference(_gone(track), _gone(static))
    return Content(
        claims=(
            Claim(
                "The loss starts from a higher initial value than with static constraints.",
                f"loss in episode 0: {interquartile_mean(_first_losses(track))} with the regions "
                f"along the track, {interquartile_mean(_first_losses(static))} with 18 static "
                f"states, {higher.words('.2f')} times as large",
                higher.above(1.0),
            ),
            Claim(
                "It takes more episodes for the loss to disappear.",
                f"it stays below a tenth of its largest size from episode "
                f"{interquartile_mean(_gone(track))} on with the regions along the track, from "
                f"{interquartile_mean(_gone(static))} on with 18 static states: {longer.words()} "
                "episodes later",
                longer.above(0.0),
            ),
        ),
        drawings=(
            Drawing(
                "cartpole-regions-loss",
                loss_figure(lines),
                "Episode loss with the regions along the track and with static constraints; after "
                "episode 49 the policy is frozen and has none.",
            ),
        ),
    )


def _first_losses(learned: Learned) -> list[float]:
    return [float(seed.losses[0]) for seed in learned.seeds]


def _gone(learned: Learned) -> list[float]:
    """From which episode on each seed's loss stays below a tenth of its largest; NaN if never."""
    return [vanished(seed.losses) for seed in learned.seeds]


def vanished(losses: Array) -> float:
    """The same of one seed, up to the freeze, after which there are none."""
    sizes = np.abs(losses[~np.isnan(losses)])
    large = np.flatnonzero(sizes > 0.1 * sizes.max())
    return float(large[-1] + 1) if large[-1] + 1 < len(sizes) else np.nan


def _policy(results: Results) -> Content:
    names = ("cartpole_paper", "cartpole_track_deviation", "cartpole_track_mirrored_deviation")
    n_seeds = results.experiments[names[0]].seeds
    static, track, mirrored = (
        np.array([_map(results.run(name, seed)) for seed in range(n_seeds)]) for name in names
    )
    apart, alike = over_seeds(_distances(static, track)), over_seeds(_agreements(static, track))
    plane = cartpole_plane(results.run(names[0]))
    angles = np.linspace(*plane.horizontal_range, static.shape[2])
    meet = [over_seeds(_meetings(one, angles)).words("+.3f") for one in (static, track, mirrored)]
    return Content(
        claims=(
            Claim(
                "The policy learned with regions is almost identical to the statically "
                "constrained one.",
                f"on the slice at x = ẋ = 0 probabilities differ by {apart.words('.3f')}, and the "
                f"two prefer the same push in {alike.words('.0%')} of the states (same seed, "
                "regions along the track); with the two sides alike "
                f"{over_seeds(_distances(static, mirrored)).words('.3f')} and "
                f"{over_seeds(_agreements(static, mirrored)).words('.0%')}",
                all_of((apart.below(_SLIGHTLY), alike.above(_MOSTLY))),
                f"Of a pole at rest (φ̇ = 0) both pushes are as likely at φ = {meet[0]} with "
                f"static constraints, {meet[1]} with regions along the track, and {meet[2]} with "
                "the two sides alike.",
            ),
        ),
        drawings=(
            Drawing(
                "cartpole-regions-policy",
                cartpole_policy_figure(results.run("cartpole_track_deviation")),
                "Probability of a⁰ at x = 0, ẋ = 0, the paper's setting on the regions along the "
                "track (grey), seed 0; stars are the states that the last update constrained.",
            ),
            Drawing(
                "cartpole-regions-policy-certified",
                cartpole_policy_figure(results.run("cartpole_regions_certified")),
                "The six whole regions of the paper's table, certified: not in the paper.",
            ),
        ),
    )


def _map(run: Run) -> Array:
    """Of pushing left, over the slice."""
    return output_over(run.agent().policy, cartpole_plane(run), LEFT)


def _distances(one: Array, other: Array) -> Array:
    """Mean difference of probabilities over the slice, of each seed."""
    distances: Array = np.abs(one - other).mean(axis=(1, 2))
    return distances


def _agreements(one: Array, other: Array) -> Array:
    """The part of the slice with the same preference, of each seed."""
    agreements: Array = ((one > 0.5) == (other > 0.5)).mean(axis=(1, 2))
    return agreements


def _meetings(maps: Array, angles: Array) -> Array:
    """The angle at which a pole at rest is pushed either way as often, of each seed.

    Args:
        maps: (seeds, n, n) of pushing left, over the slice: velocities down, angles across.
        angles: (n,).
    """
    at_rest = maps[:, maps.shape[1] // 2]
    meetings: Array = angles[np.abs(at_rest - 0.5).argmin(axis=1)]
    return meetings


CARTPOLE_REGIONS = (
    Exhibit("cartpole-regions", "Figure 7", "Cartpole, regions", _learning),
    Exhibit("cartpole-regions-loss", "Figure 8", "Episode loss with regions", _loss),
    Exhibit("cartpole-regions-policy", "Figure 9", "The policy learned with regions", _policy),
)
