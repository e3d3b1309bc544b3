"""Ranks shapes for a type of jobs by the options of `stoker shapes`."""

from collections.abc import Mapping, Sequence

from conf.auto_bounds import amount_of, auto_bounds, is_auto
from daemon.cli.shapes.shape_runs import read_places
from daemon.cli.shared.errors import CommandError, naming
from environment.clusters.cluster_files import load_cluster
from environment.shape_kinds import kinds_of
from profiles.shapes.advice import ShapeAdvice, advise, open_shapes
from profiles.shapes.belief import by_type
from profiles.shapes.candidates import OpenShape
from profiles.shapes.errors import KnownTypes
from profiles.shapes.runs import JobShape, ShapeRun
from profiles.shapes.sources import UNPRICED


def advised(
    type_name: str,
    places: list[str],
    cluster: str | None,
    bounds: Mapping[str, str],
    beta: float,
    input_gib: float | None,
) -> ShapeAdvice:
    """Rank the shapes within these bounds, by option, for a type with runs in these places.

    CommandError where one of them cannot be used, or no shape is left.
    """
    within = _within(bounds)
    return _advised(type_name, places, cluster, within, beta, input_gib)


def _advised(
    type_name: str,
    places: list[str],
    cluster: str | None,
    within: OpenShape,
    beta: float,
    input_gib: float | None,
) -> ShapeAdvice:
    types = dict(by_type(read_places(places)))
    if (own := types.pop(type_name, None)) is None:
        known = ", ".join(sorted(types)) or "none"
        raise CommandError(f"{', '.join(places)}: no run of type {type_name}; there are runs of {known}")
    if cluster is not None:
        shapes = open_shapes(kinds_of(load_cluster(cluster)), within, own)
    else:
        shapes = _priced(own, [run for of in types.values() for run in of], within)
    return advise(own, KnownTypes(list(types.values())), shapes, within, beta=beta, input_gib=input_gib)


def _priced(own: Sequence[ShapeRun], others: Sequence[ShapeRun], within: OpenShape) -> list[JobShape]:
    """The shapes that were run, within the bounds; CommandError where they have no price."""
    shapes = list(dict.fromkeys(run.shape for run in (*own, *others)))
    if any(not shape.vm or shape.dollars_per_hour == UNPRICED for shape in shapes):
        raise CommandError(
            "--cluster: names the VMs to choose from; only a .csv with a column dollars_per_hour needs none"
        )
    found = [shape for shape in shapes if within.includes(shape)]
    if not found:
        raise CommandError("none of the shapes that were run is within these bounds; --cluster names VMs")
    return found


def _within(options: Mapping[str, str]) -> OpenShape:
    """Bounds by the options; CommandError that names the option."""
    bounds = {}
    for name, text in options.items():
        with naming(f"--{name}: "):
            bounds[name] = auto_bounds(name, text) if is_auto(text) else (amount_of(name, text),) * 2
    return OpenShape.of(**bounds)
