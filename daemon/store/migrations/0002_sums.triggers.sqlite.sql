-- What is in `sums` of each job and executor. A sum that took an infinity in would never be a number again.

CREATE TRIGGER jobs_added AFTER INSERT ON jobs BEGIN
    INSERT INTO sums (name, state, number, cost, size) VALUES ('jobs', new.state, 1,
        CASE WHEN abs(new.cost) <= 1e15 THEN new.cost ELSE 0 END, coalesce(new.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    END;

CREATE TRIGGER jobs_changed AFTER UPDATE OF state, cost, size ON jobs BEGIN
    UPDATE sums SET number = number - 1, size = size - coalesce(old.size, 0),
        cost = cost - CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END
    WHERE name = 'jobs' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('jobs', new.state, 1,
        CASE WHEN abs(new.cost) <= 1e15 THEN new.cost ELSE 0 END, coalesce(new.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    END;

CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs BEGIN
    UPDATE sums SET number = number - 1, size = size - coalesce(old.size, 0),
        cost = cost - CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END
    WHERE name = 'jobs' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('pruned', old.state, 1,
        CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END, coalesce(old.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('highest', '', old.number, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = max(number, excluded.number);
    END;

CREATE TRIGGER executors_added AFTER INSERT ON executors BEGIN
    INSERT INTO sums (name, state, number, cost, size) VALUES ('executors', new.state, 1, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = number + 1;
    END;

CREATE TRIGGER executors_changed AFTER UPDATE OF state ON executors BEGIN
    UPDATE sums SET number = number - 1 WHERE name = 'executors' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('executors', new.state, 1, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = number + 1;
    END;

CREATE TRIGGER executors_deleted AFTER DELETE ON executors BEGIN
    UPDATE sums SET number = number - 1 WHERE name = 'executors' AND state = old.state;
    END;
