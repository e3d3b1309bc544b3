# A Spark driver, in the folder that is its own. Arguments: those of spark-submit.
# In: SPARK_HOME; STOKER_SPARK_PROPERTIES with the settings, the secret among them; STOKER_UI_FILTER with the class
# that keeps strangers from the UI, as a format for printf; STOKER_ARCHIVES, a line `FILE#FOLDER` for each that is
# near; STOKER_ALIASES, a line `FILE#NAME` for each file that is called otherwise here; STOKER_TASK, where it is a task.
set -eu
case $SPARK_HOME in /*) ;; *) export SPARK_HOME="$PWD/$SPARK_HOME" ;; esac
case ${JAVA_HOME-/} in /*) ;; *) export JAVA_HOME="$PWD/$JAVA_HOME" ;; esac

# The secret leaves the environment before anything else can see it, for a file that only its owner reads. All
# that Spark leaves behind, even when killed, stays in this folder; `events`, the last, says that it took all that.
prepare() {
  (umask 077 && printf '%s' "$STOKER_SPARK_PROPERTIES" > spark.properties) && mkdir -p tmp stoker-ui/stoker &&
    printf "$STOKER_UI_FILTER" > stoker-ui/stoker/KeyFilter.class && mkdir -p events
}
prepare || exit 74 # EX_IOERR
unset STOKER_SPARK_PROPERTIES STOKER_UI_FILTER

# Spark calls files as they are called where they are, so they get their other names here.
while IFS='#' read -r file name; do
  [ -z "$file" ] || [ "$file" -ef "$name" ] || cp -- "$file" "$name" ||
    { echo "files: $file cannot be copied to $name" >&2; exit 1; }
done <<< "${STOKER_ALIASES-}"
unset STOKER_ALIASES

# Spark unpacks archives for executors, and for a driver only when its context is made: a Python in one is needed
# before. What is large goes with the other scratch files.
while IFS='#' read -r archive folder; do
  [ -n "$archive" ] || continue
  mkdir -p "tmp/archives/$folder" && ln -s -- "tmp/archives/$folder" "$folder"
  case $archive in
    *.zip | *.jar) "$PYSPARK_DRIVER_PYTHON" -m zipfile -e "$archive" "tmp/archives/$folder" ;;
    *) tar --force-local -xf "$archive" -C "tmp/archives/$folder" ;;
  esac || { echo "archives: $archive cannot be unpacked" >&2; exit 1; }
done <<< "${STOKER_ARCHIVES-}"
unset STOKER_ARCHIVES

export SPARK_LOCAL_DIRS="${SPARK_LOCAL_DIRS:-$PWD/tmp}"
# Packages are fetched for this job alone: what another one could have put into a shared cache is not trusted.
export SPARK_SUBMIT_OPTS="${SPARK_SUBMIT_OPTS-} \"-Djava.io.tmpdir=$PWD/tmp\" \"-Divy.home=$PWD/tmp/ivy\""
# Spark's scripts ask a JVM for the command, which is over before compiling with care is worth it.
export SPARK_LAUNCHER_OPTS="${SPARK_LAUNCHER_OPTS--XX:TieredStopAtLevel=1 -XX:+UseSerialGC}"
task=${STOKER_TASK-}
unset STOKER_TASK
[ -n "$task" ] || exec "$SPARK_HOME/bin/spark-submit" --properties-file spark.properties "$@"

# A task is known by its exit code alone: 98 says that Spark could not have a port, and is not the
# application's to say. SIGTERM, which reaches all processes of a task, is for the others to end by.
trap : TERM
code=0
"$SPARK_HOME/bin/spark-submit" --properties-file spark.properties "$@" || code=$?
taken="BindException: .*Service .?(sparkDriver|SparkUI|[A-Za-z0-9_.]*NettyBlockTransferService).? failed after"
if [ "$code" -ne 0 ] && tail -c 65536 stderr | LC_ALL=C grep -Eq "$taken"; then exit 98; fi # EADDRINUSE
[ "$code" -ne 98 ] || code=1
exit "$code"
