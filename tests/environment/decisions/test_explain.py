"""Explanations: VMs examined, resources they lacked, choices and their reasons."""

from agents.baselines.first_fit import FirstFit
from agents.baselines.scored import LeastAllocated
from environment.decisions.decision_round import Verdict, decide_once
from environment.decisions.explain import CANDIDATES_LISTED, EXECUTORS_IN_FULL, explain
from environment.types import Place
from tests.builders import make_request, make_view, make_vms


def test_each_executor_is_explained_on_what_the_one_before_it_left() -> None:
    """The second executor finds the first VM full, and says so."""
    view = make_view(make_vms(2, cpus=1, memory_mib=4096))
    explanation = explain(decide_once(FirstFit().decide, view, [make_request(2)]), "ff")
    assert (explanation.decision, explanation.policy) == ("place", "ff")
    assert explanation.reason == "2 of 2 executors placed: vm-1, vm-2"
    first, second = explanation.choices
    assert (first.executor, first.vm, first.why) == (0, "vm-1", "vm-1 is the first VM with room for it")
    assert [candidate.lacks for candidate in first.candidates] == [(), ()]
    assert [candidate.lacks for candidate in second.candidates] == [("vm-1 has 0 cpus free, 1 needed",), ()]
    assert [candidate.chosen for candidate in second.candidates] == [False, True]
    assert second.candidates[0].free["mem"] == 3072


def test_how_many_executors_are_on_a_vm_is_counted() -> None:
    """Each VM is named once, however many executors a job has."""
    view = make_view(make_vms(3, cpus=4))
    explanation = explain(decide_once(FirstFit().decide, view, [make_request(6)]), "ff")
    assert explanation.reason == "6 of 6 executors placed: 4 on vm-1, 2 on vm-2"


def test_waiting_is_explained_by_what_each_vm_lacks() -> None:
    """One choice for the job as a whole: none."""
    view = make_view(make_vms(2, cpus=1))
    explanation = explain(decide_once(FirstFit().decide, view, [make_request(1, cpus=2)]), "ff")
    (choice,) = explanation.choices
    assert (explanation.decision, choice.executor, choice.vm) == ("wait", None, None)
    assert explanation.reason == choice.why
    assert [candidate.lacks for candidate in choice.candidates] == [
        ("vm-1 has 1 cpu free, 2 needed",),
        ("vm-2 has 1 cpu free, 2 needed",),
    ]


def test_scores_are_shown_when_the_policy_gives_them() -> None:
    """Each candidate carries its score, or none."""
    view = make_view(make_vms(2))
    scored = explain(decide_once(LeastAllocated().decide, view, [make_request()]), "least_allocated")
    plain = explain(decide_once(FirstFit().decide, view, [make_request()]), "ff")
    assert all(candidate.score is not None for candidate in scored.choices[0].candidates)
    assert all(candidate.score is None for candidate in plain.choices[0].candidates)


def test_a_policy_without_words_is_explained_all_the_same() -> None:
    """When `why` is empty the explanation says that no reason was given."""
    view = make_view(make_vms(1))
    verdict = Verdict(make_request(1), view, Place("job-1", (0,)))
    assert explain(verdict, "mine").choices[0].why == "the policy gave no reason"


def test_large_clusters_are_cut_short_but_the_chosen_vm_is_shown() -> None:
    """Only so many VMs are listed, the chosen one among them, and the rest is counted."""
    view = make_view(make_vms(500))
    verdict = Verdict(make_request(1), view, Place("job-1", (400,)))
    (choice,) = explain(verdict, "mine").choices
    assert len(choice.candidates) == CANDIDATES_LISTED + 1
    assert choice.candidates[-1].vm == "vm-401"
    assert choice.candidates_left_out == 500 - CANDIDATES_LISTED - 1


def test_a_vm_that_is_chosen_twice_has_less_the_second_time() -> None:
    """The chosen VM, listed or not, shows the resources that earlier executors left."""
    view = make_view(make_vms(CANDIDATES_LISTED + 2))
    for index in (0, CANDIDATES_LISTED - 1, CANDIDATES_LISTED + 1):
        verdict = Verdict(make_request(3), view, Place("job-1", (index, index, index)))
        choices = explain(verdict, "mine").choices
        chosen = [candidate for choice in choices for candidate in choice.candidates if candidate.chosen]
        assert [candidate.vm for candidate in chosen] == [f"vm-{index + 1}"] * 3
        assert [candidate.free["cpus"] for candidate in chosen] == [4, 3, 2]
        assert [candidate.free["mem"] for candidate in chosen] == [16384, 15360, 14336]


def test_the_later_executors_of_a_huge_job_list_only_the_vm_they_got() -> None:
    """Each still has its reason and its VM; the others are counted, none is lost."""
    executors = EXECUTORS_IN_FULL + 10
    view = make_view(make_vms(20, cpus=4))
    choices = explain(decide_once(FirstFit().decide, view, [make_request(executors)]), "ff").choices
    assert [choice.executor for choice in choices] == list(range(executors))
    assert {len(choice.candidates) for choice in choices[:EXECUTORS_IN_FULL]} == {20}
    for choice in choices[EXECUTORS_IN_FULL:]:
        (candidate,) = choice.candidates
        assert (candidate.chosen, candidate.vm, choice.candidates_left_out) == (True, choice.vm, 19)
        assert choice.why
    assert [choice.candidates[0].free["cpus"] for choice in choices[-2:]] == [2, 1]
