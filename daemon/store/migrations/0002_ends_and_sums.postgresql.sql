-- When jobs ended and what they keep, so that they can be pruned; sums, so that nothing counts all rows; a
-- place for what cannot be read. A row that cannot be read has no end here, and `doctor` finds it.

ALTER TABLE jobs ADD COLUMN finished_at DOUBLE PRECISION;

ALTER TABLE jobs ADD COLUMN size BIGINT;

UPDATE jobs SET finished_at = substring(record from '"finished_at":([0-9]+[.]?[0-9]*)')::double precision
    WHERE state IN ('finished', 'failed', 'killed');

CREATE INDEX jobs_over ON jobs (finished_at, number) WHERE finished_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS comparisons (number BIGSERIAL NOT NULL, job BIGINT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (number), FOREIGN KEY (job) REFERENCES jobs (number));

CREATE INDEX comparisons_by_job ON comparisons (job);

CREATE TABLE sums (name TEXT NOT NULL, state TEXT NOT NULL, number BIGINT NOT NULL, cost DOUBLE PRECISION
    NOT NULL, size BIGINT NOT NULL, PRIMARY KEY (name, state));

CREATE TABLE quarantine (number BIGSERIAL NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL, body BYTEA NOT
    NULL, why TEXT NOT NULL, found_at DOUBLE PRECISION NOT NULL, PRIMARY KEY (number));

INSERT INTO sums (name, state, number, cost, size)
    SELECT 'jobs', state, count(*), sum(CASE WHEN abs(cost) <= 1e15 THEN cost ELSE 0 END), 0
    FROM jobs GROUP BY state;

INSERT INTO sums (name, state, number, cost, size)
    SELECT 'executors', state, count(*), 0, 0 FROM executors GROUP BY state;
