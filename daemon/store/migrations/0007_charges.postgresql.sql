-- What VMs have cost, and which are paid for.

CREATE TABLE charges (day TEXT NOT NULL, vm TEXT NOT NULL, pool TEXT NOT NULL, type TEXT NOT NULL, job TEXT
    NOT NULL, owner TEXT NOT NULL, queue TEXT NOT NULL, policy TEXT NOT NULL, kind TEXT NOT NULL, dollars
    DOUBLE PRECISION NOT NULL, PRIMARY KEY (day, vm, pool, type, job, owner, queue, policy, kind));

CREATE INDEX charges_by_job ON charges (job);

CREATE TABLE accounts (id TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (id));
