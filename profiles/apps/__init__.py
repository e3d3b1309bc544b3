"""Spark applications to run and to measure, each a file of its own that `spark-submit` takes as it is.

They generate their data, the same for the same arguments, or read the files of `--input`; they print one
line of JSON with a result that can be checked. Nothing of Stoker is imported here or needed there.
"""
