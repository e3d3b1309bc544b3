"""docs/reference/spark.md: Stoker's treatment of each of Spark's settings, from its own table."""

from collections import Counter
from collections.abc import Iterator

from framework.spark.settings_table import FOLDER, all_settings
from framework.spark.submit_properties import OURS
from framework.spark.treatments import TREATMENTS, Treatment, treatment

HEAD = """# Reference: Spark's settings

Made by `make reference` from the one table of their treatment (`framework/spark/treatments.py`), and from the
settings that the jars of each Spark version register (`framework/spark/settings`, a line for each; `make
settings` reads them again). Settings that are not listed here go to the application unchanged.

Settings come from `spark-submit`, from the properties of a driver that requests executors, and from `conf` of
a job file. A job file's `conf` may not contain settings with a field of their own, unless *in conf* says yes,
nor settings without effect: the error names the field, or the reason. With spark-submit, the answer names
settings without effect, with the reason.
"""


def spark_reference() -> str:
    """The page."""
    settings = all_settings()
    passed = Counter(
        setting.name.split(".")[1]
        for setting in settings.values()
        if treatment(setting.name).does == "passes"
    )
    versions = " and ".join(sorted(path.stem for path in FOLDER.glob("*.tsv")))
    lines = [HEAD]
    for does, title in (
        ("maps", "Settings that become a field of the job"),
        ("refuses", "Settings that are refused"),
        ("sets aside", "Settings without effect"),
    ):
        lines += [f"## {title}", ""]
        lines += [*_table(does), ""]
    lines += ["## Stoker's own", "", "| property | what it says |", "| --- | --- |"]
    lines += [f"| `{name}` | {text} |" for name, text in sorted(OURS.items())]
    lines += ["", "## Older names", "", "Each counts as the setting of today, unless that is given, too.", ""]
    lines += ["| older name | setting | its value |", "| --- | --- | --- |"]
    lines += _older()
    lines += ["", "## Settings that pass", ""]
    lines += [
        f"{passed.total()} settings of Spark {versions} go to the application as they are, and so does what "
        "no Spark declares (`spark.hadoop.*`, `spark.executorEnv.*`):",
        "",
        "| settings | how many |",
        "| --- | --- |",
        *(f"| `spark.{family}` | {number} |" for family, number in sorted(passed.items())),
    ]
    return "\n".join(lines) + "\n"


def _table(does: str) -> Iterator[str]:
    said = "field" if does == "maps" else "reason"
    yield f"| setting | values | {said} |{' in conf |' if does == 'maps' else ''}"
    yield "| --- | --- | --- |" + (" --- |" if does == "maps" else "")
    for name, what in sorted(TREATMENTS.items()):
        if what.does == does and name != "spark.stoker.*":
            conf = f" {'yes' if what.in_conf else 'no'} |" if does == "maps" else ""
            yield f"| `{name}` | {_values(name, what)} | {what.why} |{conf}"


def _values(name: str, what: Treatment) -> str:
    setting = all_settings().get(name)
    kind = setting.kind if setting is not None else "any"
    taken = " and ".join(f"`{value}`" for value in sorted(what.harmless))
    return f"{kind}, but for {taken}" if taken else kind


def _older() -> Iterator[str]:
    found = [
        (other, setting.name, how)
        for setting in all_settings().values()
        for other, how in setting.others.items()
    ]
    for other, name, how in sorted(found):
        value = f"`{how}`" if how else "the same"
        yield f"| `{other}` | `{name}` | {value} |"
