-- Names, groups, arrays and labels of jobs, so that they can be found by these; the bill by group.

ALTER TABLE jobs ADD COLUMN name TEXT DEFAULT '' NOT NULL;

ALTER TABLE jobs ADD COLUMN job_group TEXT;

ALTER TABLE jobs ADD COLUMN array_of BIGINT;

UPDATE jobs SET name = coalesce(substring(record from '"name":"([^"\\]*)"'), '');

CREATE INDEX jobs_by_name ON jobs (owner, name, number);

CREATE INDEX jobs_of_job_group ON jobs (job_group, number) WHERE job_group IS NOT NULL;

CREATE INDEX jobs_of_array_of ON jobs (array_of, number) WHERE array_of IS NOT NULL;

CREATE TABLE labels (name TEXT NOT NULL, value TEXT NOT NULL, job BIGINT NOT NULL, PRIMARY KEY (name, value,
    job), FOREIGN KEY (job) REFERENCES jobs (number));

CREATE INDEX labels_by_job ON labels (job);

CREATE TABLE charged_groups (day TEXT NOT NULL, "group" TEXT NOT NULL, kind TEXT NOT NULL, dollars DOUBLE
    PRECISION NOT NULL, PRIMARY KEY (day, "group", kind));

INSERT INTO charged_groups (day, "group", kind, dollars) SELECT day, '', kind, sum(dollars) FROM
    charged_days GROUP BY day, kind;
