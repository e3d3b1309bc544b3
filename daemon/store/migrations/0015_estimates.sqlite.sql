-- What was expected of jobs.

CREATE TABLE estimates (job INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (job), FOREIGN KEY (job)
    REFERENCES jobs (number));
