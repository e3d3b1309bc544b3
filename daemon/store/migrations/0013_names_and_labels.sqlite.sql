-- Names, groups, arrays and labels of jobs, so that they can be found by these; the bill by group.

ALTER TABLE jobs ADD COLUMN name TEXT DEFAULT '' NOT NULL;

ALTER TABLE jobs ADD COLUMN job_group TEXT;

ALTER TABLE jobs ADD COLUMN array_of INTEGER;

UPDATE jobs SET name = coalesce(CASE WHEN json_valid(record) THEN json_extract(record, '$.job.name') WHEN
    json_valid(substr(record, 1, length(record) - 9)) THEN json_extract(substr(record, 1, length(record) -
    9), '$.job.name') END, '');

CREATE INDEX jobs_by_name ON jobs (owner, name, number);

CREATE INDEX jobs_of_job_group ON jobs (job_group, number) WHERE job_group IS NOT NULL;

CREATE INDEX jobs_of_array_of ON jobs (array_of, number) WHERE array_of IS NOT NULL;

CREATE TABLE labels (name TEXT NOT NULL, value TEXT NOT NULL, job INTEGER NOT NULL, PRIMARY KEY (name,
    value, job), FOREIGN KEY (job) REFERENCES jobs (number)) WITHOUT ROWID;

CREATE INDEX labels_by_job ON labels (job);

CREATE TABLE charged_groups (day TEXT NOT NULL, "group" TEXT NOT NULL, kind TEXT NOT NULL, dollars DOUBLE
    NOT NULL, PRIMARY KEY (day, "group", kind)) WITHOUT ROWID;

INSERT INTO charged_groups (day, "group", kind, dollars) SELECT day, '', kind, sum(dollars) FROM
    charged_days GROUP BY day, kind;
