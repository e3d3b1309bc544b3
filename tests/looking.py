"""Places where paths are looked at, and why no stranger can exchange the files in between.

`test_style.py` holds the daemon and its framework to it.
"""

#: Calls that look at a path and leave its use for later, or open it.
LOOKING = frozenset({
    "is_file", "is_dir", "is_symlink", "is_zipfile", "exists", "resolve", "open", "stat", "lstat",
    "readlink", "iterdir", "listdir", "scandir", "glob", "rglob", "walk", "read_text", "read_bytes",
    "copy", "copy2", "copyfile", "copytree", "unlink", "access", "isfile", "isdir", "realpath",
})  # fmt: skip


def _in(file: str, functions: str) -> tuple[tuple[str, str], ...]:
    return tuple((file, function) for function in functions.split())


#: Functions that call them, by file. All others open users' paths by `framework.host.user_files`.
LOOKING_AT_OWN = frozenset({
    # No path: a method of ours, a query or a copy of an object that has such a name.
    *_in("daemon/scheduler/command_executor.py", "_open"),
    *_in("daemon/store/rows/events.py", "read"),
    *_in("daemon/store/queries/job_pages.py", "_few"),
    *_in("daemon/vms/provider_guard.py", "open"),
    *_in("daemon/vms/vm_provisioner.py", "_open"),
    *_in("daemon/store/queries/ended_jobs.py", "<module>"),
    *_in("daemon/store/job_store.py", "during"),
    *_in("framework/embedded/pool_vms.py", "handle"),
    # The daemon's store, logs, records, uploads and web page, in folders that it alone may write.
    *_in(
        "daemon/maintenance/backup.py",
        "back_up _draft_in _locked _checked _check_source restore _copy _sync _put_aside _highest_in "
        "_remove _there",
    ),
    *_in("daemon/store/rows/database.py", "_make_private _identity"),
    *_in("daemon/disk/disk_monitor.py", "look"),
    *_in("daemon/maintenance/doctor.py", "_look_at_file"),
    *_in("daemon/substrate/embedded_mesos.py", "stop _spawn _last_line _read"),
    *_in("daemon/disk/job_folders.py", "_is_there in_use jobs"),
    *_in("framework/task_folders.py", "task_folders"),
    *_in("daemon/maintenance/host_checks.py", "look_at_permissions look_at_event_logs"),
    *_in("daemon/disk/event_log.py", "turn _open _gone _cut"),
    *_in("daemon/disk/log_archive.py", "keep find _forget_first _keep_events"),
    *_in("daemon/disk/launch_records.py", "records all forget put_aside _take_over"),
    *_in("daemon/launch/launcher.py", "_host_id"),
    *_in("daemon/page/routes.py", "_read"),
    *_in("daemon/disk/run_as.py", "_open"),
    *_in("daemon/disk/crash_mark.py", "end"),
    *_in("daemon/server.py", "_data_dir"),
    *_in("daemon/store/rows/sqlite_file.py", "note sync_folder lost _has_log _foreign _log_fault"),
    *_in(
        "daemon/disk/uploads.py",
        "status use look check_sizes path checked sweep _is_old _take _unlink _room _entries _sync",
    ),
    *_in("framework/embedded/credentials.py", "_kept"),
    *_in("framework/embedded/isolation/isolation.py", "_register _remove _read remove_leftovers"),
    *_in("framework/embedded/mesos_server.py", "serve _serve _start_again _alone_in _beat"),
    # What the config names: the administrator's own files and folders.
    *_in("daemon/maintenance/config_check.py", "_secret _allowed _data_dir"),
    *_in("daemon/disk/run_as.py", "rights_of own_rights"),
    *_in("daemon/core/tls.py", "_why _stamp"),
    *_in("daemon/auth/user_directory.py", "_file_mark"),
    *_in("daemon/auth/users_file.py", "open_to_others"),
    # Installations of Spark, Java and Python, what is made for them, and what ships with Stoker.
    *_in("daemon/maintenance/host_checks.py", "_is_wrong"),
    *_in("daemon/launch/launch_validation.py", "_home_jars"),
    *_in("daemon/store/migrations/__init__.py", "<module> statements"),
    *_in("framework/spark/install/backend_jar.py", "<module> backend_jar _content _jars _compile"),
    *_in(
        "framework/spark/install/fetch.py",
        "<module> fetchable connectable _put _alone _quicken _replace _only _unpack_spark _unpack_java "
        "_compile_python _write",
    ),
    *_in(
        "framework/spark/install/homes.py",
        "version_in python_path connect_path fetched _serves _here _java",
    ),
    *_in("framework/spark/command_lines.py", "<module>"),
    *_in("framework/spark/settings_table.py", "all_settings"),
    *_in("framework/spark/driver/ui_key.py", "_filter"),
    # The kernel's: /proc, /sys and control groups.
    *_in("daemon/core/clock.py", "__init__"),
    *_in("daemon/launch/launcher.py", "_groups"),
    *_in("daemon/vms/host_capacity.py", "this_machine"),
    *_in("daemon/store/rows/terms.py", "me"),
    *_in("framework/host/listening_socket.py", "listener_of _listener"),
    *_in("framework/host/process_tree.py", "identity is_stopped since_beat below children"),
    *_in("framework/embedded/isolation/bridge.py", "remove_network"),
    *_in(
        "framework/host/cgroups.py",
        "memory_limit_mib limit_memory was_at_its_limit _happened remove make_tracker",
    ),
    *_in(
        "framework/host/cgroups.py",
        "_make_unified _folders_in _pids"
        " most_processes_here _number",
    ),
    *_in("framework/embedded/isolation/isolation.py", "_proc"),
    *_in("framework/embedded/agent/environments.py", "_container_of"),
    *_in("framework/spark/driver/driver.py", "_supervisors _works_in"),
    *_in("framework/host/stop_signals.py", "_command"),
    # Made for what jobs may exchange at any moment: opened once and judged by what was opened, without
    # following links, or only told of.
    *_in("daemon/launch/event_log_export.py", "find_event_logs _copy"),
    *_in("daemon/disk/job_folders.py", "measure remove _empty _entries _is_folder _take _free_name"),
    *_in("daemon/disk/file_delivery.py", "copy_in _copy"),
    *_in("daemon/maintenance/host_checks.py", "_move"),
    *_in("daemon/launch/log_reader.py", "_driver_folder _nothing_here"),
    *_in("daemon/launch/launch_validation.py", "_jar_or_other _check_jar"),
    *_in("framework/embedded/agent/processes.py", "appended"),
    *_in("framework/host/untrusted_files.py", "open_beneath list_beneath _list _open"),
    *_in("framework/mesos/sandboxes.py", "local_sandbox"),
    *_in("framework/host/user_files.py", "_open_by_steps _place _may_read"),
    # A process of the job's, or one that has become its user: it may do no more than the job.
    *_in("framework/embedded/agent/fetch.py", "_fetch_one _copy _download _extract"),
    *_in("framework/embedded/isolation/enter.py", "main _write _enter"),
    *_in(
        "framework/spark/driver/supervisor.py",
        "_register _spawn _become _close_streams _kill_group _clean_up _write",
    ),
})  # fmt: skip

#: Calls that remove or unpack a whole tree by names that are in it.
TREES = frozenset({"rmtree", "TemporaryDirectory", "extract", "extractall", "unpack_archive"})
#: Functions that call them, by file. All others remove folders of jobs by `daemon.disk.job_folders`, and
#: write members of archives under names of their own.
TREES_OF_OWN = frozenset({
    # Folders that no job may write.
    *_in("daemon/disk/launch_records.py", "_take_over"),
    *_in("framework/spark/install/fetch.py", "_put remove _alone _make _quicken"),
    *_in("audit/read_logs.py", "read_logs"),
    # As the job's user, which may do no more than the job.
    *_in("framework/spark/driver/supervisor.py", "_clean_up"),
    *_in("framework/embedded/agent/fetch.py", "_extract"),
})  # fmt: skip
