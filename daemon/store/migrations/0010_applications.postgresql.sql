-- How drivers that request executors are reached, known to every daemon that leads.

CREATE TABLE applications (job BIGINT NOT NULL, has_secret BOOLEAN NOT NULL, record TEXT NOT NULL, PRIMARY
    KEY (job), FOREIGN KEY (job) REFERENCES jobs (number));
