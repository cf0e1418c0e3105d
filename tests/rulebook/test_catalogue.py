"""The bundled files at a glance, against what they are when they are built."""

from __future__ import annotations

from handrail.constraints import PlacedConstraint
from handrail.rulebook import Overview, bundled, load_rulebook, overviews


def test_an_overview_says_what_the_built_file_says() -> None:
    found = overviews()
    assert tuple(one.name for one in found) == bundled()
    for one in found:
        book = load_rulebook(one.name)
        placed = [each for each in book.constraints if isinstance(each, PlacedConstraint)]
        assert one == Overview(
            name=book.name,
            description=book.description,
            environment=book.environment.id,
            states=sum(len(each.states) for each in placed if each.region is None),
            regions=sum(each.region is not None for each in placed),
            pass_mark=book.pass_mark,
        )


def test_regions_and_states_are_counted() -> None:
    by_name = {one.name: one for one in overviews()}
    assert (by_name["cartpole"].states, by_name["cartpole"].regions) == (18, 0)
    assert (by_name["cartpole_disks"].states, by_name["cartpole_disks"].regions) == (0, 4)
    assert by_name["pendulum"].states == 56
