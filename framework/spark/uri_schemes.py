"""URI schemes from which Spark can read a job's files: built in, or supplied by a job or a Spark home."""

from collections.abc import Collection, Iterable, Mapping
from urllib.parse import urlsplit

#: Schemes that every Spark reads: `hadoop-client-api`, which ships with it, has the file systems.
SERVED = frozenset(
    {"file", "local", "spark", "http", "https", "ftp", "hdfs", "webhdfs", "swebhdfs", "viewfs", "har"}
)
#: The jar or Maven package that each other scheme needs.
_BROUGHT_BY = {
    **dict.fromkeys(("s3a",), "hadoop-aws"),
    **dict.fromkeys(("gs",), "gcs-connector"),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), "hadoop-azure"),
    "oss": "hadoop-aliyun",
    "obs": "hadoop-huaweicloud",
    "cosn": "hadoop-cos",
    "o3fs": "ozone-filesystem",
    "ofs": "ozone-filesystem",
}


def unserved(
    reference: str, brought: Iterable[str], conf: Mapping[str, str], home_jars: Collection[str] | None
) -> str:
    """Reason why Spark cannot read a file named so, with the remedy; empty when it can.

    `brought` are the job's own jars and packages, `conf` its settings, `home_jars` the names of the files in
    the `jars` of its Spark home; None: that folder cannot be read here, and its possible contents pass.
    """
    scheme = urlsplit(reference).scheme.lower()
    if not scheme or scheme in SERVED or f"spark.hadoop.fs.{scheme}.impl" in conf:
        return ""
    needed = _BROUGHT_BY.get(scheme)
    if needed is None:
        known = ", ".join(sorted(SERVED | _BROUGHT_BY.keys()))
        return (
            f"Spark knows no {scheme}: URIs; it reads {known}, and others whose class "
            f"spark.hadoop.fs.{scheme}.impl names"
        )
    if home_jars is None or any(needed in text for text in (*brought, *home_jars)):
        return ""
    return (
        f"this Spark cannot read {scheme}: URIs: they need {needed}, which is neither among its jars nor "
        "among the job's jars or packages"
    )
