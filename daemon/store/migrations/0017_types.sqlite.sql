-- Types of jobs, so that they can be found by these.

ALTER TABLE jobs ADD COLUMN type TEXT DEFAULT '' NOT NULL;

UPDATE jobs SET type = coalesce(CASE WHEN json_valid(record) THEN json_extract(record, '$.job.type') WHEN
    json_valid(substr(record, 1, length(record) - 9)) THEN json_extract(substr(record, 1, length(record) -
    9), '$.job.type') END, '');

DROP INDEX jobs_by_owner;

CREATE INDEX jobs_by_owner ON jobs (owner, state, number, queue, type);

CREATE INDEX jobs_by_type ON jobs (type, state, number, queue);
