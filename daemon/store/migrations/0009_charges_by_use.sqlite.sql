-- Charges by what is asked for, and not by each job on each VM: these were too many.

CREATE TABLE charged_days (day TEXT NOT NULL, pool TEXT NOT NULL, type TEXT NOT NULL, owner TEXT NOT NULL,
    queue TEXT NOT NULL, policy TEXT NOT NULL, kind TEXT NOT NULL, dollars DOUBLE NOT NULL, PRIMARY KEY
    (day, pool, type, owner, queue, policy, kind)) WITHOUT ROWID;

INSERT INTO charged_days (day, pool, type, owner, queue, policy, kind, dollars) SELECT day, pool, type,
    owner, queue, policy, kind, sum(dollars) FROM charges GROUP BY day, pool, type, owner, queue, policy,
    kind;

CREATE TABLE charged_jobs (day TEXT NOT NULL, job TEXT NOT NULL, kind TEXT NOT NULL, dollars DOUBLE NOT
    NULL, PRIMARY KEY (day, job, kind)) WITHOUT ROWID;

INSERT INTO charged_jobs (day, job, kind, dollars) SELECT day, job, kind, sum(dollars) FROM charges GROUP BY
    day, job, kind;

CREATE TABLE charged_vms (day TEXT NOT NULL, vm TEXT NOT NULL, kind TEXT NOT NULL, dollars DOUBLE NOT NULL,
    PRIMARY KEY (day, vm, kind)) WITHOUT ROWID;

INSERT INTO charged_vms (day, vm, kind, dollars) SELECT day, vm, kind, sum(dollars) FROM charges GROUP BY
    day, vm, kind;

CREATE TABLE charged_pools (pool TEXT NOT NULL, kind TEXT NOT NULL, dollars DOUBLE NOT NULL, PRIMARY KEY
    (pool, kind)) WITHOUT ROWID;

INSERT INTO charged_pools (pool, kind, dollars) SELECT pool, kind, sum(dollars) FROM charges GROUP BY pool,
    kind;

CREATE INDEX charged_jobs_by_job ON charged_jobs (job);

DROP TABLE charges;
