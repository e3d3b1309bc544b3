-- What happened, in words.

CREATE TABLE events (number BIGSERIAL NOT NULL PRIMARY KEY, at DOUBLE PRECISION NOT NULL, job BIGINT, kind
    TEXT NOT NULL, text TEXT NOT NULL);

CREATE INDEX events_by_job ON events (job) WHERE job IS NOT NULL;
