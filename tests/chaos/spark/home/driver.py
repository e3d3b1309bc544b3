"""A Spark driver in miniature: opens its ports, lets its own executors join, works while one is there, ends.

driver.py --properties-file FILE APP SECONDS [EXIT_CODE]

A shell runs CHAOS_SCRIPT in its folder before that; it notes in CHAOS_LOG that it runs.
"""

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

ANSWER = (
    b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"
    b'[ {\n  "id" : "app-%d",\n  "attempts" : [ {\n  "appSparkVersion" : "0.1"\n  } ]\n} ]\n'
)
STEP = 0.05  # seconds


class Driver:
    """Its two listeners and the executors that joined."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.key = settings["spark.stoker.KeyFilter.param.secret"].encode()
        self.secret = settings["spark.authenticate.secret"].encode()
        host = settings["spark.driver.bindAddress"]
        self.rpc = socket.create_server((host, int(settings["spark.driver.port"])))
        self.ui = socket.create_server((host, int(settings["spark.ui.port"])))
        self.executors: list[socket.socket] = []

    def work(self, seconds: float) -> None:
        """Work for so long; without an executor no work is done."""
        while seconds > 0:
            began = time.monotonic()
            ready, _, _ = select.select([self.rpc, self.ui, *self.executors], [], [], STEP)
            for one in ready:
                with contextlib.suppress(OSError):
                    self.serve(one)
            if self.executors:
                seconds -= time.monotonic() - began

    def serve(self, one: socket.socket) -> None:
        """Answer the UI, let an executor in, or see one go."""
        if one is self.ui:
            connection, _ = one.accept()
            with connection:
                connection.settimeout(1.0)
                if b"\r\nAuthorization: Bearer " + self.key + b"\r\n" in connection.recv(4096):
                    connection.sendall(ANSWER % os.getpid())
        elif one is self.rpc:
            connection, _ = one.accept()
            connection.settimeout(1.0)
            if connection.recv(4096).strip() == self.secret:
                connection.sendall(b"welcome\n")
                self.executors.append(connection)
            else:
                connection.close()
        elif not one.recv(4096):
            one.close()
            self.executors.remove(one)


def main() -> int:
    """Run the job that the arguments tell."""
    settings = dict(line.split("=", 1) for line in Path(sys.argv[2]).read_text().splitlines() if "=" in line)
    settings = {name.strip(): value.strip().replace("\\", "") for name, value in settings.items()}
    seconds, code, *_ = (*map(float, sys.argv[4:]), 0.0)
    # On the cluster it is a task, and its launch may have been undone and made again as another one.
    name = os.environ.get("MESOS_EXECUTOR_ID", os.environ.get("CHAOS_KEY", ""))
    with Path(os.environ.get("CHAOS_LOG", os.devnull)).open("a") as log:
        log.write(f"driver {name} app-{os.getpid()} {os.getpid()}\n")
    driver = Driver(settings)
    if script := os.environ.get("CHAOS_SCRIPT"):
        subprocess.run(["bash", "-c", script], check=False)
    driver.work(seconds)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
