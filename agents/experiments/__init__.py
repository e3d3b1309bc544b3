"""Runs over workloads and seeds, reports, and the experiments of `stoker reproduce`."""
