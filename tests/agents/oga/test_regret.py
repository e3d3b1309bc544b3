"""Theorem 1, measured: regret against y* stays under its bound and grows like the square root of T."""

from agents.experiments.zhao2023.runs import regret


def test_regret_is_sublinear_and_bounded() -> None:
    """At Theorem 1's step size, for T from 250 to 4000; the fitted exponent is printed."""
    for seed in range(2):
        found = regret(seed, (250, 500, 1000, 2000, 4000))
        worst = [lost + unsure for lost, unsure in zip(found.regret, found.unsure, strict=True)]
        assert all(0 < lost <= bound for lost, bound in zip(worst, found.bound, strict=True))
        print(f"seed {seed}: regret grows as T to the power of {found.exponent:.3f}")
        assert 0.35 < found.exponent < 0.6
