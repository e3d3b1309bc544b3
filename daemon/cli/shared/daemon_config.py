"""The daemon's config for commands that use its store and data folder: which file, with which changes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.cli.shared.errors import CommandError

if TYPE_CHECKING:
    from conf.schema import Config

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Config file; without it, the shipped defaults."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="One value of the config, as in policy=greedy; repeatable."
    ),
]


def read_config(config: Path | None, settings: list[str] | None) -> "tuple[Config, Path]":
    """The config and the folder that it is in; CommandError when it is none."""
    from conf.loader import SHIPPED, load
    from conf.schema import Config
    from daemon.cli.shared.job_file import assignments

    path = config or SHIPPED / "default.yaml"
    return load(path, Config, assignments(settings or [], "--set")), path.absolute().parent


def find_own_policies(config: Path | None = None) -> None:
    """Have users' own policies found beside the config, or in the current folder where none is given."""
    from agents.registry import look_in

    look_in(Path.cwd() if config is None else config.absolute().parent)


def data_dir_of(config: "Config") -> Path:
    """The data folder; CommandError when there is none."""
    folder = Path(config.data_dir).expanduser().absolute()
    if not folder.is_dir():
        raise CommandError(
            f"data_dir: {folder}: there is no such folder; give the daemon's --config or --set"
        )
    return folder


def sqlite_file_of(config: "Config", data_dir: Path, instead: str) -> Path:
    """The file of an SQLite store; CommandError, naming the alternative `instead`, for another store."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    if config.database is None:
        return data_dir / "stoker.db"
    try:
        url = make_url(config.database)
    except SQLAlchemyError:
        raise CommandError("database: should be a URL like sqlite:////folder/file.db") from None
    if url.get_backend_name() != "sqlite":
        raise CommandError(f"the job store is {url.render_as_string(hide_password=True)}: {instead}")
    return Path(str(url.database))


def url_of(config: "Config", data_dir: Path) -> str:
    """The store's URL."""
    return config.database or f"sqlite:///{data_dir / 'stoker.db'}"
