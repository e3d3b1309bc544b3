-- Owner and queue of a job, so that lists of jobs can be filtered by them.

ALTER TABLE jobs ADD COLUMN owner TEXT DEFAULT '' NOT NULL;

ALTER TABLE jobs ADD COLUMN queue TEXT DEFAULT 'default' NOT NULL;

CREATE INDEX jobs_by_owner ON jobs (owner, state, number, queue);

CREATE INDEX jobs_by_queue ON jobs (queue, state, number);
