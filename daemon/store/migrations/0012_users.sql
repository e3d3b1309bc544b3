-- Users and when their tokens were used last; jobs with the user that they run as.

CREATE TABLE users (id TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (id));

CREATE TABLE token_uses (id TEXT NOT NULL, day TEXT NOT NULL, PRIMARY KEY (id));
