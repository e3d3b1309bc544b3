-- What is kept for jobs that wait for VMs to boot, and which pools are left alone for a while.

CREATE TABLE reservations (id TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (id));

CREATE TABLE pool_setbacks (id TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (id));
