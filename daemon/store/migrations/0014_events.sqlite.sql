-- What happened, in words.

CREATE TABLE events (number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, at DOUBLE NOT NULL, job INTEGER,
    kind TEXT NOT NULL, text TEXT NOT NULL);

CREATE INDEX events_by_job ON events (job) WHERE job IS NOT NULL;
