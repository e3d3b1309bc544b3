"""The daemon's queues: configuration, changes at run time, admission of jobs, and status for users.

`environment.queues` decides their effect on the order of jobs.
"""
