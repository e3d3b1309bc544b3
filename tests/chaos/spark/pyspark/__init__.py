"""Stands where pyspark would: `bin/` has the two programs of Spark that a launch calls, in miniature."""
