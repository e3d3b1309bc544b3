# A Spark executor: waits until the driver tells its application's id, then becomes the executor's JVM.
# Arguments: driver's host, port and UI port; executor's id, address and cores; seconds after which it gives up; the
# application's id where it is known, else nothing; the number of the executor's resource profile.
# In: STOKER_UI_KEY, for which the driver's UI asks; STOKER_RESOURCES, which resources beside cores and memory it has,
# as Spark reads them, or nothing. Needs bash and what Spark itself needs, no curl and no Python.
set -u
host=$1 port=$2 ui_port=$3 executor=$4 address=$5 cores=$6 patience=$7 ui_key=$STOKER_UI_KEY
unset STOKER_UI_KEY
case $SPARK_HOME in /*) ;; *) export SPARK_HOME="$PWD/$SPARK_HOME" ;; esac
case ${JAVA_HOME-/} in /*) ;; *) export JAVA_HOME="$PWD/$JAVA_HOME" ;; esac

# Prints what the driver's UI says of its application: the id, and the version of Spark; nothing while it says none.
# The filter before the UI (KeyFilter.java) answers at once; where an earlier Stoker started the driver, Spark does.
application() {
  local line id= refused=
  {
    printf 'GET %s HTTP/1.0\r\nHost: %s:%s\r\nAuthorization: Bearer %s\r\n\r\n' "$1" "$host" "$ui_port" "$ui_key" >&3
    while IFS= read -r -t 5 line <&3; do
      if [[ -z $id && $line =~ \"id\"\ *:\ *\"([^\"]+)\" ]]; then
        id=${BASH_REMATCH[1]}
      elif [[ $line =~ \"appSparkVersion\"\ *:\ *\"([^\"]+)\" ]]; then
        printf '%s %s' "$id" "${BASH_REMATCH[1]}"
        return
      elif [[ $line =~ ^HTTP/[^\ ]+\ [34] ]]; then
        refused=yes
      fi
    done
  } 3<> "/dev/tcp/$host/$ui_port"
  [[ -z $refused || $1 != /stoker/* ]] || application /api/v1/applications
} 2> /dev/null

application=$8 profile=$9 version=  # the daemon has seen to it where the application is known
[ -n "$application" ] ||
  echo "Executor $executor waits for the driver at $host:$port (UI $ui_port), $patience s at most." >&2
until [[ $application == app-* ]]; do
  if [[ $application == local-* ]]; then
    echo "Executor $executor gives up: the application runs in its driver alone ($application)." \
      "Take .master(\"local...\") out of its code." >&2
    exit 3
  fi
  if (( SECONDS >= patience )); then
    echo "Executor $executor gives up: the driver's UI at $host:$ui_port told no application id in $patience s." >&2
    exit 4
  fi
  sleep 0.2
  read -r application version <<< "$(application /stoker/application)"
done

# Another Spark's driver would take this executor in, and lose it with the first task.
core=$(echo "$SPARK_HOME"/jars/spark-core_*.jar) line='^([0-9]+\.[0-9]+)\.'
if [[ ${core##*/spark-core_*-} =~ $line ]]; then
  own=${BASH_REMATCH[1]}
  if [[ $version =~ $line && ${BASH_REMATCH[1]} != "$own" ]]; then
    echo "Executor $executor gives up: its driver is of Spark $version, and $SPARK_HOME here is Spark $own." >&2
    exit 5
  fi
fi
echo "Executor $executor joins $application." >&2

# Its scratch files go into the task's sandbox, which Mesos takes away with the task.
scratch=${MESOS_SANDBOX:-$PWD}
export SPARK_LOCAL_DIRS="${SPARK_LOCAL_DIRS:-$scratch}"
SPARK_EXECUTOR_OPTS=${SPARK_EXECUTOR_OPTS//"{{APP_ID}}"/$application}
export SPARK_EXECUTOR_OPTS="${SPARK_EXECUTOR_OPTS//"{{EXECUTOR_ID}}"/$executor} \"-Djava.io.tmpdir=$scratch\""
resources=()
if [ -n "${STOKER_RESOURCES-}" ]; then
  printf '%s' "$STOKER_RESOURCES" > "$scratch/resources.json" || exit 74 # EX_IOERR
  resources=(--resourcesFile "$scratch/resources.json")
fi
unset STOKER_RESOURCES
# Spark's scripts ask a JVM for the command, which is over before compiling with care is worth it.
export SPARK_LAUNCHER_OPTS="${SPARK_LAUNCHER_OPTS--XX:TieredStopAtLevel=1 -XX:+UseSerialGC}"
exec "$SPARK_HOME/bin/spark-class" org.apache.spark.executor.CoarseGrainedExecutorBackend \
  --driver-url "spark://CoarseGrainedScheduler@$host:$port" --executor-id "$executor" \
  --hostname "$address" --bind-address "$address" --cores "$cores" --app-id "$application" --resourceProfileId "$profile" \
  ${resources[@]+"${resources[@]}"}
