"""Failure reasons of jobs: the last error of the driver, safe to show to all users.

A driver prints anything, including its own secrets. `last_words` picks the line; `launcher` and
`log_collector` read the output.
"""

from collections.abc import Sequence

from stoker.characters import visible

from conf.schema import JobSpec
from conf.util.secret_masking import masked_text, secrets_in, without
from framework.spark import last_words
from framework.spark.driver.exit_codes import exit_words, signal_of

#: Characters of the line that are shown; the log has all of it.
_LONGEST = 300


def ended(code: int, said: str = "") -> str:
    """Reason for a driver's end with this code, followed by the text that `failure_line` found."""
    return f"its driver exited with code {exit_words(code)}{said}"


def failure_line(
    stderr: bytes,
    stdout: bytes,
    spec: JobSpec | None,
    secrets: Sequence[str] = (),
    code: int | None = None,
) -> str:
    """Part of a failure reason after the exit code: the driver's last error; empty when there is none.

    It is a single line without hidden characters, cut where it is long. It contains neither `secrets` nor the
    values that the job's `spec` has under names that sound secret, nor those that `conf.util.secret_masking`
    finds. For a driver that a signal ended (by its exit `code`) only an error is reported: it had no time to
    explain.
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
