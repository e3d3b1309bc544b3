"""Why a job failed, as its reason says it: the last error of its driver, fit for everybody who sees jobs.

A driver prints what it likes, secrets of its own among it. Which line it is says `last_words`, where it was
printed `launcher` and `failed_drivers` know.
"""

from collections.abc import Sequence

from conf.schema import JobSpec
from conf.util.printable import visible
from conf.util.secret_masking import masked_text, secrets_in, without
from framework.spark import last_words
from framework.spark.driver.exit_codes import exit_words, signal_of

#: Characters of the line that are shown; the log has all of it.
_LONGEST = 300


def ended(code: int, said: str = "") -> str:
    """Why a driver that ended with this code did so, and what `failure_line` found."""
    return f"its driver exited with code {exit_words(code)}{said}"


def failure_line(
    stderr: bytes,
    stdout: bytes,
    spec: JobSpec | None,
    secrets: Sequence[str] = (),
    code: int | None = None,
) -> str:
    """What a reason says, behind the exit code, of what a driver printed last; empty when that is nothing.

    It is a single line in which nothing is hidden from its reader, cut where it is long. Neither `secrets`
    nor what the job's `spec` gives to names that sound secret are in it, nor what `conf.util.secret_masking`
    finds. Of a driver that a signal ended (by its exit `code`) only an error is told: it had no time to say
    why.
    """
    if spec is not None:
        secrets = (*secrets, *secrets_in({**spec.conf, **spec.env}, spec.args))
    words = last_words(stderr, stdout)
    if not words.error and code is not None and signal_of(code):
        return ""
    kind, colon, said = words.text.partition(": ")
    if not words.error or not kind.replace(".", "").isidentifier():
        kind, colon, said = "", "", words.text
    # An exception's name is nobody's secret: what a KeyError is about is to be read.
    line = visible(" ".join(f"{kind}{colon}{masked_text(without(said, secrets))}".split()))
    if not line:
        return ""
    line = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 4]} ..."
    return f": {line}" if words.error else f"; it printed last: {line}"
