"""A daemon with a token and TLS, and a user's own driver: its needs are met by `spark-conf --jar`."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from stoker import Stoker

from daemon.cli.operate.temporary_daemon import TemporaryDaemon
from tests.daemon.core.test_tls import certify
from tests.doors.submitting import SparkSubmit
from tests.real_daemon import APP, PATIENCE, QUICK_JAVA


class _Guarded(TemporaryDaemon):
    """Listens with TLS, and answers nobody without the token."""

    def __init__(self, folder: Path, **guards: object) -> None:
        super().__init__(folder, "ff", "clusters/paper.yaml", {"jvms": 1000})
        self._guards = guards

    def _config(self) -> str:
        plain = yaml.safe_load(super()._config())
        self.url = self.url.replace("http:", "https:")
        return yaml.safe_dump({**plain, **self._guards})


@pytest.mark.slow
def test_a_driver_with_a_token_trusts_the_daemons_certificate(tmp_path: Path) -> None:
    """It computes on executors that the policy placed, and prints the token nowhere."""
    tls, token = certify(tmp_path), tmp_path / "token"
    token.write_text("the-t0ken\n")
    token.chmod(0o600)
    app = tmp_path / "squares.py"
    app.write_text(APP)
    with (
        _Guarded(tmp_path, token_file=str(token), tls={"cert": tls.cert, "key": tls.key}) as stage,
        Stoker(stage.url, token, Path(tls.cert)) as client,
    ):
        stage.await_ready(client)
        command = [sys.executable, "-m", "daemon.cli", "spark-conf", "--jar", str(tmp_path / "stoker.jar")]
        access = ["--url", stage.url, "--token-file", str(token), "--ca", tls.cert]
        done = subprocess.run(
            [*command, *access], capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        small = {**QUICK_JAVA, "spark.driver.memory": "512m", "spark.executor.memory": "512m"}
        lines = [f"{name} {value}\n" for name, value in {**small, "spark.executor.instances": "1"}.items()]
        properties = tmp_path / "stoker.conf"
        properties.write_text(done.stdout + "".join(lines))
        settings = tmp_path / "settings"
        settings.mkdir()
        submit = SparkSubmit("4.3", settings)
        done_well = submit("--properties-file", properties, app, "4", "0")
        assert "SUM 14\n" in done_well.text
        (job,) = client.jobs(limit=10)["jobs"]
        assert (job["state"], job["reason"]) == ("finished", "its driver stopped")
        assert "the-t0ken" not in done.stdout + done_well.text
        token.chmod(0o644)
        refused = submit("--properties-file", properties, app, "4", "0")
        assert f"everybody on this machine may use the token in it; chmod 600 {token}" in refused.text
        assert refused.code != 0
