"""A process that plays the present queue forward, beside the daemon: `python -m daemon.what_if.worker`.

It reads questions from its input and writes the result of each draw, until it has played enough or its time
is over: a draw still running is broken off then, in any policy. It changes nothing and knows nothing of the
daemon, which ends it when it does not answer in time.
"""

import os
import signal
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from itertools import product
from typing import Any, BinaryIO

from agents.registry import create, is_ours, look_in
from agents.warm_up import smallest
from daemon.what_if.worker_messages import OVER, READY, AskedScene, DrawAnswer, Question, read
from environment.policy_faults import failure, foreign
from environment.simulation.forecast.play_forward import play_ahead
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import StuckError
from environment.view import RunningJob

#: The least urgent: the daemon and its jobs come first.
_NICE = 10
#: Seconds between two checks of a player whether its time is over.
_TICK = 0.5
#: Seconds in which all policies of a question that are not Stoker's own are made.
_READY = 60.0


class _OverError(BaseException):
    """The time is over. Not an `Exception`: those of policies are caught where they are asked."""


def answers(question: Question, unready: Collection[int] = ()) -> Iterator[DrawAnswer]:
    """Play draw by draw, each in all scenes under all policies: so all have the same where time runs out.

    The `unready` policies, by number, took too long to be made, and are not played.
    """
    began, failed = time.monotonic(), set[int]()
    for number in range(len(question.scenes) * len(question.policies)):
        if number % len(question.policies) in unready:
            failed.add(number)
            why = f"the policy was not made within {_READY:g} s"
            yield DrawAnswer(number, question.draws[0], None, why)
    for draw in question.draws:
        for number, (scene, (name, options)) in enumerate(product(question.scenes, question.policies)):
            passed = time.monotonic() - began
            if passed > (question.at_most if draw == question.draws[0] else question.seconds):
                return
            if number in failed:
                continue
            try:
                with _within(question.at_most - passed):
                    policy = create(name, options)
                    played = play_ahead(
                        policy,
                        scene.view,
                        scene.queue,
                        seed=draw,
                        options=_rules_of(scene),
                        fallback=None if question.fallback is None else create(*question.fallback),
                        follow=scene.follow,
                        took=scene.took,
                        errors=scene.errors,
                    )
            except _OverError:
                signal.setitimer(signal.ITIMER_REAL, 0.0)  # where it rang while it was taken down
                return
            except StuckError as error:
                failed.add(number)
                yield DrawAnswer(number, draw, None, str(error))
            except BaseException as error:
                if not foreign(error):
                    raise
                failed.add(number)
                yield DrawAnswer(number, draw, None, failure(error))
            else:
                yield DrawAnswer(number, draw, played)


def _rules_of(scene: AskedScene) -> SimulationOptions:
    """Simulation options that match the daemon's rules."""
    return SimulationOptions(
        sizes=scene.sizes,
        sharing=scene.sharing,
        keeping=scene.keeping,
        consolidation=scene.moves,
        commitments=scene.commitments,
        jvms=scene.jvms,
    )


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """`_OverError` when this takes longer, again and again, as policies may swallow it."""
    going_on = True

    def ring(*_: object) -> None:
        if going_on:
            raise _OverError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, _TICK), _TICK)
    try:
        yield
    finally:
        going_on = False
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def compile_for(name: str, options: Mapping[str, Any]) -> None:
    """Compile a policy's code before the time begins; errors from its creation are passed on.

    Without the cache of an earlier process on this machine it takes half a minute of a core.
    """
    policy = create(name, options)
    if is_ours(name):
        view, queue = smallest()
        waits, vm = queue[0].job, view.vms[0]
        runs = RunningJob(replace(waits, id="runs"), (vm.id,), 0.0, 1.0, (waits.size,))
        play_ahead(policy, replace(view, running=(runs,)), queue, seed=0)


def main(asked: BinaryIO, told: BinaryIO) -> None:
    """Answer questions until the input ends; `worker_messages.py` has the format of both."""
    while True:
        try:
            question = read(asked)  # its parent alone writes there
        except EOFError:
            return
        unready, until = set[int](), time.monotonic() + _READY
        for number, (name, options) in enumerate(question.policies):
            try:
                in_time = nullcontext() if is_ours(name) else _within(until - time.monotonic())
                with suppress(Exception), in_time:  # an error is reported when it is played
                    compile_for(name, options)
            except _OverError:
                signal.setitimer(signal.ITIMER_REAL, 0.0)  # where it rang while it was taken down
                unready.add(number)
        told.write(READY)
        told.flush()
        for answer in answers(question, unready):
            told.write(answer.to_json())
            told.flush()
        told.write(OVER)
        told.flush()


if __name__ == "__main__":
    os.nice(_NICE)
    for folder in sys.argv[1:]:
        look_in(folder)
    # Output of policies must not come between the answers.
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    main(sys.stdin.buffer, pipe)
