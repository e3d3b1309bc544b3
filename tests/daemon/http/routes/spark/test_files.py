"""Files over HTTP: uploaded in parts with a token, fetched with a job's key."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from conf.schema import Config, JobSpec
from daemon.auth.audit_log import Audit
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.launch.launcher import Launcher
from daemon.store.job_store import Store
from tests.daemon.http.test_api import Api, app, scheduler, submit
from tests.daemon.small_scheduler import SmallScheduler

__all__ = ["app", "scheduler"]

DATA = b"print('hello')\n" * 100
SHA = hashlib.sha256(DATA).hexdigest()
BYTES = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def api(store: Store, scheduler: SmallScheduler, tmp_path: Path) -> Api:
    """A client with a daemon's token."""
    audit = Audit(tmp_path / "audit.jsonl", size=1 << 20, earlier=1)
    made = create_app(scheduler, store, AppOptions(token="t0ken", version="1.2.3", audit=audit))
    return Api(made, authorization="Bearer t0ken")


def put(api: Api, data: bytes, offset: int, size: int = len(DATA), sha256: str = SHA) -> Any:
    """Send a part."""
    path = f"/v1/files/{sha256}?size={size}&offset={offset}"
    return api("PUT", path, content=data, headers=BYTES)


def test_a_file_is_sent_in_parts(api: Api, tmp_path: Path) -> None:
    """202 while more is awaited, 201 when it is there, 200 for one that was; of parts nothing is audited."""
    assert api("GET", f"/v1/files/{SHA}").status_code == 404
    assert put(api, DATA[:100], 0).status_code == 202
    assert api("GET", f"/v1/files/{SHA}").json() == {"sha256": SHA, "received": 100, "complete": False}
    wrong = put(api, DATA, 0)
    assert (wrong.status_code, wrong.headers["upload-offset"]) == (409, "100")
    assert put(api, DATA[100:], 100).status_code == 201
    assert put(api, b"", 0).status_code == 200
    assert api("GET", f"/v1/files/{SHA}").json()["complete"]
    until = [json.loads(line)["status"] for line in _lines(tmp_path / "audit.jsonl", 3)]
    assert until == [409, 201, 200]


def _lines(path: Path, number: int) -> list[str]:
    import time

    for _ in range(3000):
        if path.exists() and len(lines := path.read_text().splitlines()) >= number:
            return lines
        time.sleep(0.02)
    raise AssertionError(path.read_text())


def test_what_is_wrong_with_a_part_is_said(api: Api, store: Store, scheduler: SmallScheduler) -> None:
    """With a status of its own each; nothing is kept of any, and without the token nothing is done."""
    assert put(api, DATA, 0, sha256="0" * 64).status_code == 422
    assert put(api, b"x", 0, size=5 << 20).status_code == 413
    assert put(api, b"x" * ((1 << 20) + 1), 0, size=3 << 20).status_code == 413
    path = f"/v1/files/{SHA}?size=2"
    assert api("PUT", path, content=b"{}", headers={"Content-Type": "application/json"}).status_code == 415
    for name in (SHA[1:], SHA.upper(), "..", f"..%2f{SHA}"):
        assert put(api, DATA, 0, sha256=name).status_code in (404, 415, 422)
    assert put(api, DATA, -1).status_code == 422
    assert api("PUT", f"/v1/files/{SHA}", content=DATA, headers=BYTES).status_code == 422
    stranger = Api(create_app(scheduler, store, AppOptions(token="t0ken", version="1.2.3")))
    assert put(stranger, DATA, 0).status_code == 401
    assert stranger("GET", f"/v1/files/{SHA}").status_code == 401
    assert scheduler.uploads.status(SHA) is None


def test_who_has_the_key_of_a_job_fetches_its_file(
    api: Api, store: Store, scheduler: SmallScheduler, tmp_path: Path
) -> None:
    """Without the token, by any name of the daemon, and nothing else; a page of a browser cannot run it."""
    submit(api)
    path = tmp_path / "kept"
    path.write_bytes(DATA)
    scheduler.opened = {"k3y": (path, "a b.py")}
    stranger = Api(
        create_app(scheduler, store, AppOptions(token="t0ken", version="1.2.3")), host="driver-7:8642"
    )
    got = stranger("GET", "/v1/fetch/job-1/k3y/a%20b.py")
    assert (got.status_code, got.content) == (200, DATA)
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''a%20b.py"
    for wrong in ("job-1/key/a%20b.py", "job-1/k3y/b.py", "job-2/k3y/a%20b.py", "job-1/k3y", ".."):
        assert stranger("GET", f"/v1/fetch/{wrong}").status_code in (401, 404, 421)
    assert stranger("PUT", "/v1/fetch/job-1/k3y/a%20b.py").status_code == 405
    assert stranger("GET", "/v1/jobs/job-1").status_code == 401


@pytest.fixture
def launcher(tmp_path: Path) -> Launcher:
    """A launcher with agents that reach the daemon."""
    data = tmp_path / "data"
    data.mkdir()
    return Launcher(Config(data_dir=str(data)), data, "127.0.0.1", url="http://127.0.0.1:1")


def test_only_files_that_are_there_can_be_named(launcher: Launcher, tmp_path: Path) -> None:
    """And are kept then; drivers elsewhere need a daemon that their agents reach."""
    spec = JobSpec(app=f"stoker-file:{SHA}/app.py")
    with pytest.raises(ValueError, match=r"app\.py: no file with the hash"):
        launcher.check(spec)
    launcher.uploads.put(SHA, len(DATA), 0, DATA)
    launcher.check(spec)
    on_cluster = JobSpec(**spec.model_dump() | {"driver": {"on": "cluster", "cpus": 1.0, "memory": 1024}})
    launcher.check(on_cluster)
    data = tmp_path / "data"
    alone = Launcher(Config(data_dir=str(data)), data, "127.0.0.1")
    alone.check(spec)
    with pytest.raises(ValueError, match="loopback only"):
        alone.check(on_cluster)


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("s3a://bucket/f", "cannot read s3a: URIs: they need hadoop-aws"),
        ("gs://bucket/f", "they need gcs-connector"),
        ("nosuch://x/f", "knows no nosuch: URIs"),
    ],
)
def test_uris_that_spark_cannot_read_are_refused(
    launcher: Launcher, tmp_path: Path, uri: str, why: str
) -> None:
    """A URI that Spark cannot read is refused at submission, unless a package or a setting adds support."""
    here = tmp_path / "app.py"
    here.write_text("")
    with pytest.raises(ValueError, match=why):
        launcher.check(JobSpec(app=str(here), files=(uri,)))
    for good in ("hdfs://n/f", "https://h/f", "local:/f", "ftp://h/f"):
        launcher.check(JobSpec(app=str(here), files=(good,)))
    brought = {"conf": {"spark.hadoop.fs.nosuch.impl": "a.B"}}
    if "they need" in why:
        brought = {"packages": (f"org.x:{why.rpartition(' ')[2]}:1.0",)}  # type: ignore[dict-item]
    launcher.check(JobSpec(app=str(here), files=(uri,), **brought))  # type: ignore[arg-type]
