"""Files that the daemon keeps beside the job store: event log, uploads, job folders, log archive."""
