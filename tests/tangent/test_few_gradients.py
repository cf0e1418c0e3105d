"""A few functionals of a small network: as with many, and as they were."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from handrail.policies import CategoricalPolicy
from handrail.tangent import Functionals, gram, gram_diagonal, take_step


def policy() -> CategoricalPolicy:
    torch.manual_seed(0)
    layers = nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 2)
    return CategoricalPolicy(nn.Sequential(*layers).float())


RNG = np.random.default_rng(0)
STATES = RNG.normal(size=(1100, 3))
WEIGHTS = RNG.normal(size=(1100, 1, 2))


def test_products_of_few_are_those_of_many() -> None:
    acting = policy()
    few = Functionals(acting, STATES[:9], WEIGHTS[:9])
    many = Functionals(acting, STATES, WEIGHTS)
    assert few.few is not None
    assert many.few is None
    everything = gram(many, many)
    np.testing.assert_allclose(gram(few, few), everything[:9, :, :9], rtol=1e-10)
    np.testing.assert_allclose(gram(few, many), everything[:9], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gram_diagonal(few), gram_diagonal(many)[:9], rtol=1e-10)
    coefficients = RNG.normal(size=(9, 1))
    padded = np.concatenate([coefficients, np.zeros((1091, 1))])
    pairs = zip(few.combined(coefficients).parts, many.combined(padded).parts, strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12)


def test_several_functionals_of_a_state() -> None:
    acting, both = policy(), np.tile(np.eye(2), (5, 1, 1))
    together = Functionals(acting, STATES[:5], both)
    first = Functionals(acting, STATES[:5], both[:, :1])
    np.testing.assert_allclose(gram(together, first), gram(together, together)[..., :1], rtol=1e-12)
    assert gram(together, together).shape == (5, 2, 5, 2)


def test_what_is_kept_stays_where_the_network_moves() -> None:
    acting = policy()
    few = Functionals(acting, STATES[:9], WEIGHTS[:9])
    few.keep()
    before = gram(few, few)
    take_step(acting, few.combined(np.ones((9, 1))), 0.1)
    many = Functionals(acting, STATES, WEIGHTS)
    np.testing.assert_array_equal(gram(few, few), before)
    moved = gram(Functionals(acting, STATES[:9], WEIGHTS[:9]), many)
    assert np.abs(gram(few, many) - moved).max() > 1e-3
