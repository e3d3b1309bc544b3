-- VMs that come and go.

CREATE TABLE leases (id TEXT NOT NULL, pool TEXT NOT NULL, state TEXT NOT NULL, asked_at DOUBLE PRECISION
    NOT NULL, closed_at DOUBLE PRECISION, record TEXT NOT NULL, PRIMARY KEY (id));

CREATE INDEX ix_leases_state ON leases (state);

CREATE INDEX ix_leases_closed_at ON leases (closed_at);
