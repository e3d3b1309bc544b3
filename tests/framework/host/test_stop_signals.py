"""Senders of a signal that ends a process, and the program that it starts."""

import os
import signal
import subprocess
import sys

import pytest

from framework.host.stop_signals import STOPS
from tests.waiting import PATIENCE

SCRIPT = """
import signal, subprocess, sys, threading, time
from framework.host.stop_signals import told_of, unblocked

ended = threading.Event()
if "nohup" in sys.argv:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
else:
    for number in (signal.SIGHUP, signal.SIGQUIT):  # which those that started the tests may ignore
        signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGTERM, lambda *_: ended.set())
MASK = "import signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())), flush=True)"
with told_of(lambda sender: print(*sender, sep="|", flush=True)):
    with unblocked():
        subprocess.run([sys.executable, "-c", MASK])
    print("ready", flush=True)
    if "self" in sys.argv:
        import os
        os.kill(os.getpid(), signal.SIGTERM)
    while not ended.is_set():
        time.sleep(0.01)
    print("handled", flush=True)
"""


def start(*arguments: str) -> "subprocess.Popen[str]":
    """A process that reports the senders of its signals; returned once it is ready."""
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "[]\n"  # what it starts has none of them blocked
    assert process.stdout.readline() == "ready\n"
    return process


def test_the_sender_is_told_and_the_signal_has_its_effect() -> None:
    """A handler in the main thread runs as ever, after the sender was told."""
    with start() as process:
        process.send_signal(signal.SIGTERM)
        told, _ = process.communicate(timeout=PATIENCE)
    name, pid, uid, _, command = told.splitlines()[0].split("|")
    assert (name, int(pid), int(uid)) == ("SIGTERM", os.getpid(), os.getuid())
    assert "python" in command
    assert told.splitlines()[1:] == ["handled"]
    assert process.returncode == 0


def test_a_sender_that_is_gone_is_told_by_its_number() -> None:
    """Or by its command, where it is still there: its secrets are not."""
    with start() as process:
        kill = ["bash", "-c", f"kill {process.pid}; exec -a x sleep 60 --token=hush"]
        with subprocess.Popen(kill) as killer:
            told, _ = process.communicate(timeout=PATIENCE)
            killer.kill()
    assert told.startswith(f"SIGTERM|{killer.pid}|")
    assert "hush" not in told


def test_a_signal_that_is_ignored_is_not_told() -> None:
    """It ends nothing: a daemon under nohup outlives its terminal."""
    with start("nohup") as process:
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        told, _ = process.communicate(timeout=PATIENCE)
    assert [line.split("|")[0] for line in told.splitlines()] == ["SIGTERM", "handled"]


def test_a_process_may_send_it_to_itself() -> None:
    """That is told as such."""
    with start("self") as process:
        told, _ = process.communicate(timeout=PATIENCE)
    assert told.splitlines()[0].split("|")[4] == "this process"


@pytest.mark.parametrize("number", sorted(STOPS - {signal.SIGTERM, signal.SIGINT}))
def test_what_has_no_handler_ends_the_process(number: signal.Signals) -> None:
    """The signal itself ends it, as a waiting parent sees."""
    with start() as process:
        process.send_signal(number)
        told, _ = process.communicate(timeout=PATIENCE)
    assert told.startswith(f"{number.name}|{os.getpid()}|")
    assert process.returncode == -number
