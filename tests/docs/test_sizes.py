"""Claims about real Spark in docs/results/sizes.md agree with the runs beside it."""

from pathlib import Path
from statistics import fmean

from profiles.curve_check import measured_curves
from profiles.job_profile import load_profiles
from profiles.runs import read_runs
from profiles.summary import profiles_of

RESULTS = Path(__file__).parents[2] / "docs" / "results"
RUNS = RESULTS / "runs" / "sizes"


def test_its_tables_are_those_of_the_runs() -> None:
    """Every size and every halving stands there as it was measured."""
    told = (RESULTS / "sizes.md").read_text()
    for name, found in measured_curves(read_runs(RUNS)).items():
        for size in found.sizes:
            assert size.held_out is not None
            assert (
                f"| {name} | {size.executors} x {size.cpus:g} | {size.seconds:.1f} ± {size.spread:.1f} "
                f"| {size.fitted:.1f} | {size.held_out:.1f} |\n"
            ) in told
        for half in found.halvings:
            shares = (half.longer, half.by_curve, half.work_longer, half.saved)
            assert (
                f"| {name} | {half.executors} x {half.cpus:g} | {half.half_executors} x {half.half_cpus:g} | "
                + " | ".join(f"{share:.0%}" for share in shares)
            ) in told


def test_its_errors_are_those_of_the_tables() -> None:
    """The two means below the table."""
    sizes = [size for found in measured_curves(read_runs(RUNS)).values() for size in found.sizes]
    fitted = fmean(abs(size.fitted / size.seconds - 1) for size in sizes)
    held_out = fmean(abs((size.held_out or 0.0) / size.seconds - 1) for size in sizes)
    sentence = (
        f"A curve is {100 * fitted:.0f} % off the sizes that it was fitted to, "
        f"and {100 * held_out:.0f} % off those that were held out"
    )
    assert sentence in (RESULTS / "sizes.md").read_text()


def test_queries_of_tpch_are_those_of_the_runs() -> None:
    """Every query's three sizes stand there as measured, with the means of halving the cores."""
    told, found = (RESULTS / "sizes.md").read_text(), measured_curves(read_runs(RESULTS / "runs" / "tpch"))
    assert len(found) == 22
    for name, curve in found.items():
        of = {(size.executors, size.cpus): size for size in curve.sizes}
        sizes = [of[1, 1.0], of[1, 2.0], of[2, 1.0]]
        assert (
            f"| {name} | " + " | ".join(f"{s.seconds:.1f} | {s.fitted:.1f}" for s in sizes) + " |\n" in told
        )
    every = [half for curve in found.values() for half in curve.halvings]
    one, cpus = ([h for h in every if (h.half_executors < h.executors) == less] for less in (True, False))
    sooner, saved = -fmean(half.longer for half in one), fmean(half.saved for half in one)
    assert (
        f"without it they take {sooner:.0%} less time and {saved:.0%} fewer core".replace("%", " %") in told
    )
    longer, saved = fmean(half.longer for half in cpus), fmean(half.saved for half in cpus)
    assert f"make them {longer:.0%} longer, which saves {saved:.0%} of".replace("%", " %") in told
    sizes = [size for curve in found.values() for size in curve.sizes]
    off = fmean(abs(size.fitted / size.seconds - 1) for size in sizes)
    assert f"A curve is {off:.0%} off the three sizes".replace("%", " %") in told


def test_the_profiles_that_ship_are_those_of_the_runs() -> None:
    """`profiles/data/measured.yaml` equals the output of `profile export` for them."""
    assert load_profiles("profiles/data/measured.yaml") == profiles_of(read_runs(RUNS))
