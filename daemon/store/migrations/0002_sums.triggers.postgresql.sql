-- What is in `sums` of each job and executor. A sum that took an infinity in would never be a number again.

CREATE FUNCTION jobs_summed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP <> 'INSERT' THEN
        UPDATE sums SET number = number - 1, size = size - coalesce(OLD.size, 0),
            cost = cost - CASE WHEN abs(OLD.cost) <= 1e15 THEN OLD.cost ELSE 0 END
        WHERE name = 'jobs' AND state = OLD.state;
    END IF;
    IF TG_OP = 'DELETE' THEN
        INSERT INTO sums (name, state, number, cost, size) VALUES ('pruned', OLD.state, 1,
            CASE WHEN abs(OLD.cost) <= 1e15 THEN OLD.cost ELSE 0 END, coalesce(OLD.size, 0))
        ON CONFLICT (name, state) DO UPDATE SET number = sums.number + 1,
            cost = sums.cost + excluded.cost, size = sums.size + excluded.size;
        INSERT INTO sums (name, state, number, cost, size) VALUES ('highest', '', OLD.number, 0, 0)
        ON CONFLICT (name, state) DO UPDATE SET number = greatest(sums.number, excluded.number);
        RETURN OLD;
    END IF;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('jobs', NEW.state, 1,
        CASE WHEN abs(NEW.cost) <= 1e15 THEN NEW.cost ELSE 0 END, coalesce(NEW.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET number = sums.number + 1,
        cost = sums.cost + excluded.cost, size = sums.size + excluded.size;
    RETURN NEW;
    END $$;

CREATE TRIGGER jobs_summed AFTER INSERT OR DELETE OR UPDATE OF state, cost, size ON jobs
    FOR EACH ROW EXECUTE FUNCTION jobs_summed();

CREATE FUNCTION executors_summed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP <> 'INSERT' THEN
        UPDATE sums SET number = number - 1 WHERE name = 'executors' AND state = OLD.state;
    END IF;
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('executors', NEW.state, 1, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = sums.number + 1;
    RETURN NEW;
    END $$;

CREATE TRIGGER executors_summed AFTER INSERT OR DELETE OR UPDATE OF state ON executors
    FOR EACH ROW EXECUTE FUNCTION executors_summed();
