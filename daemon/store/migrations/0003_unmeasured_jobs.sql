-- Jobs that are still to be measured, so that those that were are not looked through.

CREATE INDEX jobs_unmeasured ON jobs (finished_at) WHERE finished_at IS NOT NULL AND size IS NULL;
