"""Interactive sessions in bad times; `python -m tests.doors.soak`."""
