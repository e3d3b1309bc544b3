"""A process that plays now's queue forward, beside the daemon: `python -m daemon.foresight.worker`.

It reads questions from its input and writes what each draw came to, until it has played enough or its time is
over. It changes nothing and knows nothing of the daemon, which ends it when it does not answer in time.
"""

import os
import pickle
import sys
import time
from collections.abc import Iterator
from itertools import product
from typing import BinaryIO

from agents.registry import create, look_in
from daemon.foresight.questions import Answer, Question
from environment.simulation.ahead import play_ahead
from environment.simulation.simulator import StuckError

#: The least urgent: whatever the daemon and its jobs do comes first.
_NICE = 10


def answers(question: Question) -> Iterator[Answer]:
    """Play draw by draw, each in all scenes under all policies: so all have the same where time runs out."""
    end, failed = time.monotonic() + question.seconds, set[int]()
    for draw in question.draws:
        for number, (scene, (name, options)) in enumerate(product(question.scenes, question.policies)):
            if time.monotonic() > end and draw != question.draws[0]:
                return
            if number in failed:
                continue
            try:
                policy = create(name, options)
                played = play_ahead(policy, scene.view, scene.queue, seed=draw, options=scene.options)
            except StuckError as error:
                failed.add(number)
                yield Answer(number, draw, None, str(error))
            except Exception as error:  # a policy is foreign code
                failed.add(number)
                yield Answer(number, draw, None, f"the policy failed: {type(error).__name__}: {error}")
            else:
                yield Answer(number, draw, played)


def main(asked: BinaryIO, told: BinaryIO) -> None:
    """Answer questions until there are no more; an empty line stands behind the answers to each."""
    while True:
        try:
            question: Question = pickle.load(asked)  # noqa: S301  # its parent alone writes there
        except EOFError:
            return
        for answer in answers(question):
            told.write(answer.to_json())
            told.flush()
        told.write(b"\n")
        told.flush()


if __name__ == "__main__":
    os.nice(_NICE)
    for folder in sys.argv[1:]:
        look_in(folder)
    # What policies print must not come between the answers.
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    main(sys.stdin.buffer, pipe)
