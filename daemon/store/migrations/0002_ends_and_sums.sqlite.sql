-- When jobs ended and what they keep, so that they can be pruned; sums, so that nothing counts all rows; a
-- place for what cannot be read. A row that cannot be read has no end here, and `doctor` finds it.

ALTER TABLE jobs ADD COLUMN finished_at DOUBLE;

ALTER TABLE jobs ADD COLUMN size INTEGER;

UPDATE jobs SET finished_at = CASE WHEN json_valid(record) THEN json_extract(record, '$.finished_at') END
    WHERE state IN ('finished', 'failed', 'killed');

CREATE INDEX jobs_over ON jobs (finished_at, number) WHERE finished_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS comparisons (number INTEGER NOT NULL, job INTEGER NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (number), FOREIGN KEY (job) REFERENCES jobs (number));

CREATE INDEX comparisons_by_job ON comparisons (job);

CREATE TABLE sums (name TEXT NOT NULL, state TEXT NOT NULL, number INTEGER NOT NULL, cost DOUBLE NOT NULL,
    size INTEGER NOT NULL, PRIMARY KEY (name, state));

CREATE TABLE quarantine (number INTEGER NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL,
    why TEXT NOT NULL, found_at DOUBLE NOT NULL, PRIMARY KEY (number));

INSERT INTO sums (name, state, number, cost, size)
    SELECT 'jobs', state, count(*), sum(CASE WHEN abs(cost) <= 1e15 THEN cost ELSE 0 END), 0
    FROM jobs GROUP BY state;

INSERT INTO sums (name, state, number, cost, size)
    SELECT 'executors', state, count(*), 0, 0 FROM executors GROUP BY state;
