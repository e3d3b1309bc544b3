#!/bin/sh
# A Java as Spark's scripts run it: `java/bin/java` beside the home `spark` that it was fetched with.
here=${0%/*}/../..

# Java takes the classes that were kept (`fetch.py`) where its class path begins as theirs did: with all of Spark's
# jars. Before those Spark's scripts have a folder for settings, which is not there, and one of the jars, from 4.x on;
# drivers have classes that are in no jar of Spark's. All else comes first to be found first, and stays there.
jars_first() {
  first=${1%%/jars/\**} home=${1%%/jars/\**}
  home=${home##*:} rest=${1#"$first/jars/*"}
  first=${first%"$home"} ours=
  [ "$home/jars" -ef "$here/spark/jars" ] || return 1
  while [ -n "$first" ]; do
    entry=${first%%:*} first=${first#*:}
    case $entry in
      "$home"/jars/slf4j-api-*.jar) ;;
      stoker-ui | stoker-ui/ | stoker-backend.jar | */stoker-backend-*.jar) ours=$ours:$entry ;;
      *) [ -n "$entry" ] && [ ! -e "$entry" ] || return 1 ;;
    esac
  done
  path=$(cd -P "$home/jars" && pwd)/*$ours$rest # by whatever way it was come to, it was kept as this
}

option='' kept='' own=''
for argument do
  shift
  case $option$argument in
    --add-modules=jdk.incubator.vector) continue ;;
    -cp*/jars/\**) if jars_first "$argument"; then argument=$path kept=$here/classes.jsa; fi ;;
    -XX:SharedArchiveFile=* | -XX:ArchiveClassesAtExit=*) own=$argument ;;
  esac
  option=''
  [ "$argument" != -cp ] || option=-cp
  set -- "$@" "$argument"
done
[ -n "$own" ] || [ ! -r "$kept" ] || set -- "-XX:SharedArchiveFile=$kept" '-Xlog:cds*=off' "$@"
exec "$here/java/runtime/bin/java" "$@"
