"""Spark and Java installations: fetched, found, and Stoker's jar for them."""
