-- Hours that dollars paid for, whether on spot VMs, and charges by VM and job for those who want these.

ALTER TABLE charged_days ADD COLUMN hours DOUBLE PRECISION DEFAULT 0 NOT NULL;

ALTER TABLE charged_days ADD COLUMN spot BOOLEAN DEFAULT false NOT NULL;

CREATE TABLE charged_uses (day TEXT NOT NULL, vm TEXT NOT NULL, job TEXT NOT NULL, pool TEXT NOT NULL, type
    TEXT NOT NULL, owner TEXT NOT NULL, queue TEXT NOT NULL, policy TEXT NOT NULL, kind TEXT NOT NULL, dollars
    DOUBLE PRECISION NOT NULL, "group" TEXT NOT NULL, hours DOUBLE PRECISION DEFAULT 0 NOT NULL, spot BOOLEAN DEFAULT false NOT
    NULL, PRIMARY KEY (day, vm, job, pool, type, owner, queue, policy, kind));
