"""The command `shapes`: what each shape of executors would cost for a type of jobs."""
