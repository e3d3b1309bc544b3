"""Kinds of hostile jobs. The driver runs CHAOS_SCRIPT, each executor CHAOS_EXECUTOR_SCRIPT.

A job that reads a secret prints `TAKEN`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """What a job does, how it may end, what asking for its log answers, and whether it has to be killed.

    `executor` is the script of its executors. `needs_user`: harmless only where jobs run as another user than
    the daemon; `needs_daemon`: only the daemon's user can do it. With `fetches`, its driver is on the cluster
    and names a path that is exchanged all the while.
    """

    script: str
    states: tuple[str, ...] = ("finished",)
    log: int = 200
    kill: bool = False
    preload: bool = False
    executor: str = ""
    needs_user: bool = False
    needs_daemon: bool = False
    fetches: bool = False


RECORDS = '"$PWD/../../../records/$(basename "$(dirname "$PWD")")/driver"'
#: The log's name becomes a hard link to a file of root's, a link, a file of the kernel's, a FIFO.
LOGS = (
    "rm -f stdout stderr; ln $CHAOS_SECRET stdout 2>/dev/null || ln -s $CHAOS_SECRET stdout",
    "rm -f stdout stderr; mkfifo stdout stderr",
    "for i in {1..200}; do ln -sf $CHAOS_SECRET next; mv -f next stderr; ln -sf /dev/zero next;"
    " mv -f next stdout; done",
)
KINDS = {
    "forks": Kind("for i in {1..60}; do sleep 1000 & setsid sleep 1000 & done"),
    "fills the disk": Kind("head -c 64M /dev/zero > filler; mkdir -p tmp/{a..z}/{a..z}"),
    "has a FIFO for a log": Kind("rm stdout stderr; mkfifo stdout stderr", log=409),
    "has a link for a log": Kind("rm stdout; ln -s /etc/passwd stdout", log=409),
    "has a folder for a log": Kind("rm stdout; mkdir stdout", log=409),
    "has a link for its folder": Kind(
        "mv ../driver ../other; ln -s /etc ../driver", log=409, needs_daemon=True
    ),
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
    "bombs with forks": Kind(
        "ulimit -u 300; bomb() { (( $1 > 6 )) || { bomb $(($1 + 1)) & bomb $(($1 + 1)) & }; sleep 1000; };"
        " (bomb 0 &) 2>/dev/null",
        executor="for i in {1..60}; do sleep 1000 & setsid sleep 1000 & done 2>/dev/null",
    ),
    "reads what is the daemon's": Kind(
        "data=$PWD/../../..; cat $CHAOS_SECRET $data/stoker.db* $data/*/secret /proc/$CHAOS_DAEMON/environ"
        " /proc/$CHAOS_DAEMON/mem /proc/$CHAOS_DAEMON/fd/* 2>/dev/null"
        " | head -c 1 | grep -qz . && echo TAKEN",
        executor="cat $CHAOS_SECRET /proc/$CHAOS_DAEMON/environ /proc/$CHAOS_DAEMON/fd/* 2>/dev/null"
        " | head -c 1 | grep -qz . && echo TAKEN",
        needs_user=True,
    ),
    "signals the daemon": Kind(
        "kill -STOP $CHAOS_DAEMON; kill -TERM $CHAOS_DAEMON; kill -KILL $CHAOS_DAEMON",
        executor="kill -STOP $CHAOS_DAEMON; kill -KILL $CHAOS_DAEMON",
        needs_user=True,
    ),
    "exchanges an executor's logs for root's": Kind("", executor=LOGS[0]),
    "has FIFOs for an executor's logs": Kind("", executor=LOGS[1]),
    "exchanges an executor's logs again and again": Kind("", executor=LOGS[2]),
    "names a path that is exchanged": Kind(
        'cat path* driver.py 2>/dev/null | grep -q "of the daemon" && echo TAKEN',
        ("finished", "failed"),
        needs_user=True,
        fetches=True,
    ),
}
