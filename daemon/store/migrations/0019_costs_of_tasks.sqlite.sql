-- Dollars and ends of tasks, in which sums over very many are made; empty in rows of before.

ALTER TABLE executors ADD COLUMN cost DOUBLE;

ALTER TABLE executors ADD COLUMN ended_at DOUBLE;
