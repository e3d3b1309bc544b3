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


def test_the_profiles_that_ship_are_those_of_the_runs() -> None:
    """`profiles/data/measured.yaml` equals the output of `profile export` for them."""
    assert load_profiles("profiles/data/measured.yaml") == profiles_of(read_runs(RUNS))
