-- Types of jobs, so that they can be found by these.

ALTER TABLE jobs ADD COLUMN type TEXT DEFAULT '' NOT NULL;

UPDATE jobs SET type = coalesce(substring(record from '"type":"([^"\\]*)"'), '');

DROP INDEX jobs_by_owner;

CREATE INDEX jobs_by_owner ON jobs (owner, state, number, queue, type);

CREATE INDEX jobs_by_type ON jobs (type, state, number, queue);
