"""Kinds of jobs that do what they can against the daemon and those beside them; CHAOS_SCRIPT says what."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """What a job does, how it may end, what asking for its log answers, and whether it has to be killed."""

    script: str
    states: tuple[str, ...] = ("finished",)
    log: int = 200
    kill: bool = False
    preload: bool = False


RECORDS = '"$PWD/../../../records/$(basename "$(dirname "$PWD")")/driver"'
KINDS = {
    "forks": Kind("for i in {1..60}; do sleep 1000 & setsid sleep 1000 & done"),
    "fills the disk": Kind("head -c 64M /dev/zero > filler; mkdir -p tmp/{a..z}/{a..z}"),
    "has a FIFO for a log": Kind("rm stdout stderr; mkfifo stdout stderr", log=409),
    "has a link for a log": Kind("rm stdout; ln -s /etc/passwd stdout", log=409),
    "has a folder for a log": Kind("rm stdout; mkdir stdout", log=409),
    "has a link for its folder": Kind("mv ../driver ../other; ln -s /etc ../driver", log=409),
    "has FIFOs for all that Spark writes": Kind("rm -rf events tmp; mkfifo events tmp spark.properties.new"),
    "writes records into its folder": Kind(
        "echo ok > exit_code; echo '[]' > process.json; mkfifo launch.json"
    ),
    "says it has finished": Kind(f"echo ok > {RECORDS}/exit_code", ("failed", "finished")),
    "says it is nobody": Kind(f"echo '[]' > {RECORDS}/process.json", ("failed", "finished")),
    "has a FIFO for a record": Kind(
        f"rm -f {RECORDS}/process.json && mkfifo {RECORDS}/process.json {RECORDS}/exit_code",
        ("failed", "finished"),
    ),
    "removes its records": Kind(f"rm -rf {RECORDS}", ("failed", "finished")),
    "prints without end": Kind("yes hostile | head -c 200M"),
    "leaves its session": Kind("setsid bash -c 'setsid sleep 1000 & setsid sleep 1000 & sleep 1000' &"),
    "ignores SIGTERM": Kind("trap '' TERM; while :; do sleep 0.1; done", ("killed",), kill=True),
    "hangs before it begins": Kind("", ("killed",), kill=True, preload=True),
}
