"""Computes what logged applications could cost: each type's curve, the simulator, single changes.

`job_runs` scales a run to other sizes by its stages, `types` fits profiles and checks them on runs that they
have not seen, `scenarios` and `plays` play all applications on other clusters, `changes` ranks what saves
most, `files` writes what `stoker simulate` and `train` read.
"""
