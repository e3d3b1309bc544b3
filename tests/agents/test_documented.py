"""docs/policies.md's table lists the policies, their options, and the inputs of their decisions.

A policy's inputs are found by showing it a cluster and a queue, and then the same with one thing different:
where it decides otherwise, it knows of that.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from agents.overtaking.overtaking_policy import OvertakingOptions
from agents.registry import FACTS as WORDS
from agents.registry import POLICIES, create, describe, knows
from environment.policy import Observer
from environment.pools import Openings
from environment.resources import Resources
from environment.types import EndedJob, Job, Place, PlacementRequest
from environment.view import ClusterView
from tests.builders import make_view, make_vm

PAGE = Path(__file__).parents[2] / "docs/policies.md"
#: A view, a queue, and jobs that end while the policy decides.
Scene = tuple[ClusterView, list[PlacementRequest], list[EndedJob]]
SCENES = range(12)
OVERTAKING = [field.name for field in fields(OvertakingOptions)]


def rows() -> dict[str, tuple[list[str], list[str]]]:
    """By name: the policy's inputs on the page, and its options."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## All of them\n")[2].partition("\n## ")[0]
    found = {}
    for line in re.findall(r"^\| (`.+) \|$", section, re.MULTILINE):
        names, _, facts, options = line.split(" | ")
        for name in re.findall(r"`(\w+)`", names):
            assert name not in found, f"{name} stands there twice"
            own = re.findall(r"`(\w+)`", options)
            if options.endswith("[overtaking](#overtaking)"):
                own += [option for option in OVERTAKING if option not in own]
            found[name] = ([] if facts == "-" else facts.split(", "), own)
    return found


def scene(seed: int) -> Scene:
    """Six VMs of three sizes with jobs on them, four jobs that wait, and three that end."""
    rng = random.Random(seed)  # noqa: S311 - the same scene for the same seed
    sizes = ((4.0, 16384), (8.0, 32768), (2.0, 17408))
    chosen = [(rng.choice(sizes), rng.choice((0.12, 0.24, 0.48))) for _ in range(6)]
    vms = [make_vm(f"vm-{n}", *size, price) for n, (size, price) in enumerate(chosen)]
    view = make_view(vms)
    for number in range(rng.randint(1, 5)):
        request = waiting(rng, number)
        spots = np.repeat(np.arange(len(vms)), view.room_for(request)).tolist()
        if len(spots) >= request.count:
            view = view.with_placement(request, sorted(rng.sample(spots, request.count)))
    queue = [waiting(rng, number) for number in range(10, 14)]
    ended = [waiting(rng, number).job for number in range(20, 23)]
    return view, queue, [EndedJob(job, ("id-vm-0",), (job.size,), -500.0, -300.0, True) for job in ended]


def waiting(rng: random.Random, number: int) -> PlacementRequest:
    """A job of any kind."""
    job = Job(
        f"job-{number}",
        rng.choice(("wordcount", "pagerank", "sort")),
        Resources.of(rng.choice((1.0, 2.0)), rng.choice((1024, 2048, 4096))),
        executors=rng.randint(1, 5),
        submitted_at=-float(rng.randint(0, 300)),
        expected_duration=rng.choice((60.0, 240.0, 600.0)),
        prefers=rng.choice(("spread", "consolidate")),
    )
    return PlacementRequest(job, job.executors)


def with_jobs(scene: Scene, other: Callable[[Job], Job]) -> Scene:
    """The scene with something else said of all its jobs, but for when those that run end."""
    view, queue, ended = scene
    return (
        view.changed(running=tuple(replace(running, job=other(running.job)) for running in view.running)),
        [replace(request, job=other(request.job)) for request in queue],
        [replace(over, job=other(over.job)) for over in ended],
    )


def head_alone(scene: Scene) -> Scene:
    """Nobody waits but the first."""
    view, queue, ended = scene
    return view, queue[:1], ended


def of_one_type(scene: Scene) -> Scene:
    """All jobs are of the same type."""
    return with_jobs(scene, lambda job: replace(job, type="sort"))


def other_durations(scene: Scene) -> Scene:
    """Short jobs are long, and long ones short."""
    durations = {60.0: 600.0, 240.0: 420.0, 600.0: 60.0, None: None}
    return with_jobs(scene, lambda job: replace(job, expected_duration=durations[job.expected_duration]))


def other_preferences(scene: Scene) -> Scene:
    """Jobs prefer the other way to be placed."""
    return with_jobs(
        scene, lambda job: replace(job, prefers="spread" if job.prefers == "consolidate" else "consolidate")
    )


def other_ends(scene: Scene) -> Scene:
    """Swap early and late ends: all running jobs take from 60 to 780 seconds."""
    view, queue, ended = scene
    running = tuple(replace(job, expected=840.0 - (job.expected or 0.0)) for job in view.running)
    return view.changed(running=running), queue, ended


def other_prices(scene: Scene) -> Scene:
    """The first VM has the price of the last."""
    view, queue, ended = scene
    prices = [vm.price_per_hour for vm in reversed(view.vms)]
    vms = tuple(replace(vm, price_per_hour=price) for vm, price in zip(view.vms, prices, strict=True))
    return replace(view, vms=vms), queue, ended


def on_pools(scene: Scene) -> Scene:
    """Its VMs are all closed, and boot in a minute or two."""
    view, queue, ended = scene
    count = len(view.vms)
    openings = Openings(np.zeros(count, np.bool_), np.linspace(60.0, 120.0, count))
    return make_view(view.vms).changed(openings=openings), queue, ended


#: What may be known, by the word for it in the page, in its order there.
FACTS: dict[str, Callable[[Scene], Scene]] = {
    "queue": head_alone,
    "types": of_one_type,
    "durations": other_durations,
    "ends": other_ends,
    "preferences": other_preferences,
    "prices": other_prices,
}


def decisions(name: str, scene: Scene, options: Mapping[str, object]) -> list[object]:
    """Decisions of a new policy on the scene, first and after every end that it is told of."""
    policy, (view, queue, ended) = create(name, options), scene
    made: list[object] = []
    for over in (None, *ended):
        if over is not None and isinstance(policy, Observer):
            policy.observe(over)
        decision = policy.decide(view, queue)
        where = (decision.job_id, decision.placement, decision.sizes) if isinstance(decision, Place) else None
        made.append(where)
        view = replace(view, at=view.at + 1.0)
    return made


def known(name: str, scenes: Sequence[Scene], **options: object) -> list[str]:
    """Inputs on which the policy's decisions depend."""
    before = [decisions(name, scene, options) for scene in scenes]
    assert any(before), f"{name} places nothing anywhere: what it knows cannot be told"
    return [
        fact
        for fact, change in FACTS.items()
        if any(
            decisions(name, change(scene), options) != made
            for scene, made in zip(scenes, before, strict=True)
        )
    ]


def test_all_policies_are_documented_with_their_options() -> None:
    """No more and no fewer, in the order of the registry's options."""
    written = {name: options for name, (_, options) in rows().items()}
    assert written == {name: [option.name for option in describe(name).options] for name in POLICIES}


@pytest.mark.parametrize("name", POLICIES)
def test_what_a_policy_knows_is_documented(name: str) -> None:
    """The table agrees with changes of one thing at a time, on fixed VMs and on those of pools."""
    scenes = [scene(seed) for seed in SCENES]
    found = known(name, [*scenes, *map(on_pools, scenes[:4])])
    assert rows()[name][0] == list(knows(name, {}) or ()) == found


@pytest.mark.parametrize("way", ["easy", "first_fit", "best"])
@pytest.mark.parametrize("name", ["ff", "aep"])
def test_what_is_known_to_overtake_is_told(name: str, way: str) -> None:
    """As found in the same way."""
    scenes = range(200 if (name, way) == ("ff", "easy") else 20)  # some facts matter seldom
    found = known(name, [scene(seed) for seed in scenes], overtake=way)
    assert list(knows(name, {"overtake": way}) or ()) == found


def test_there_is_a_word_for_everything() -> None:
    """The registry's."""
    assert tuple(FACTS) == WORDS
