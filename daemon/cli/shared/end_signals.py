"""Signals that end a command: it stops its processes and removes its temporary files before."""

import signal


def end_in_order() -> None:
    """Have SIGTERM and SIGHUP raise SystemExit; one that is ignored, as under nohup, stays so."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)
