-- The outbox of delayq in PostgreSQL 13 or newer, version 1. A row of delayq_outbox asks for one write:
--
--     INSERT INTO delayq_outbox (topic, id, due, payload)
--     VALUES ('orders', 'order-17', now() + interval '30 minutes', '{"order":17}');
--
-- Producers only insert rows, into one of two tables; the other one is truncated once all of its rows are settled. What a
-- producer needs:
--
--     GRANT INSERT ON {schema}.delayq_outbox TO app;
--     GRANT USAGE ON SEQUENCE {schema}.delayq_outbox_seq TO app;
--     GRANT SELECT ON SEQUENCE {schema}.delayq_outbox_slot TO app;

CREATE SEQUENCE {schema}.delayq_outbox_seq;

-- Which of the two tables takes new rows. A sequence, because its value has no versions that a long transaction keeps.
CREATE SEQUENCE {schema}.delayq_outbox_slot AS smallint MINVALUE 0 MAXVALUE 1 START 0;

CREATE FUNCTION {schema}.delayq_outbox_current() RETURNS smallint LANGUAGE plpgsql STABLE AS
$$BEGIN RETURN (SELECT last_value FROM {schema}.delayq_outbox_slot); END$$;

CREATE TABLE {schema}.delayq_outbox (
    -- The order of rows, as of their transactions' ends. Never set these four: their defaults are right.
    tx           xid8        NOT NULL DEFAULT pg_current_xact_id(),
    seq          bigint      NOT NULL DEFAULT nextval('{schema}.delayq_outbox_seq'),
    slot         smallint    NOT NULL DEFAULT {schema}.delayq_outbox_current(),
    added        timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- What to do with which message.
    verb         text        NOT NULL DEFAULT 'put' CHECK (verb IN ('put', 'cancel', 'reschedule')),
    topic        text        NOT NULL,
    id           text        NOT NULL,
    group_id     text,
    -- Of a put and a reschedule: a time, or milliseconds from `added`; a put without either is due at once.
    due          timestamptz,
    delay_ms     bigint      CHECK (delay_ms >= 0),
    -- Of a reschedule: only if the message is due at this time.
    expected     timestamptz,
    -- Of a put. Headers are an object, or an array of [name, value].
    payload      bytea,
    headers      jsonb,
    expires      timestamptz,
    max_attempts integer     CHECK (max_attempts BETWEEN 0 AND 65535),
    replaces     boolean     NOT NULL DEFAULT false,
    -- Of a put that replaces: how it meets a pending message: later, sooner, content or within=MS; keep; and
    -- expected=MS and hash=HASH.
    again        text,
    PRIMARY KEY (tx, seq, slot),
    CHECK (isfinite(added)),
    CHECK (due IS NULL OR delay_ms IS NULL),
    CHECK (verb <> 'reschedule' OR due IS NOT NULL OR delay_ms IS NOT NULL),
    CHECK (verb <> 'cancel' OR (due IS NULL AND delay_ms IS NULL)),
    CHECK (verb = 'reschedule' OR expected IS NULL),
    CHECK (verb = 'put' OR (payload IS NULL AND headers IS NULL AND expires IS NULL AND max_attempts IS NULL AND NOT replaces)),
    CHECK (again IS NULL OR replaces)
) PARTITION BY LIST (slot);
CREATE TABLE {schema}.delayq_outbox_0 PARTITION OF {schema}.delayq_outbox FOR VALUES IN (0);
CREATE TABLE {schema}.delayq_outbox_1 PARTITION OF {schema}.delayq_outbox FOR VALUES IN (1);

-- A transaction's rows take their numbers at its end, when it waits for no lock any more: so if it waited for another
-- transaction, they come after that one's, wherever in the transaction they were inserted. Where nobody else has taken a
-- number since its first row, those that they have will do.
CREATE FUNCTION {schema}.delayq_outbox_number() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO pg_catalog, pg_temp AS
$$DECLARE
    decided text := current_setting('delayq_outbox.numbers', true);
BEGIN
    IF decided IS DISTINCT FROM 'keep ' || NEW.tx AND decided IS DISTINCT FROM 'renew ' || NEW.tx THEN
        decided := CASE WHEN (SELECT last_value FROM {schema}.delayq_outbox_seq) - NEW.seq + 1
                           = (SELECT count(*) FROM {schema}.delayq_outbox WHERE tx = NEW.tx)
                   THEN 'keep ' ELSE 'renew ' END || NEW.tx;
        PERFORM set_config('delayq_outbox.numbers', decided, true);
    END IF;
    IF decided = 'renew ' || NEW.tx THEN
        UPDATE {schema}.delayq_outbox SET seq = nextval('{schema}.delayq_outbox_seq')
            WHERE tx = NEW.tx AND seq = NEW.seq AND slot = NEW.slot;
    END IF;
    RETURN NULL;
END$$;
CREATE CONSTRAINT TRIGGER delayq_outbox_number AFTER INSERT ON {schema}.delayq_outbox
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.delayq_outbox_number();

-- Rows that could not be carried out: rejected for good, or resting and tried again from time to time.
CREATE TABLE {schema}.delayq_outbox_aside (
    number  bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    resting boolean     NOT NULL,
    reason  text        NOT NULL,
    since   timestamptz NOT NULL DEFAULT now(),
    -- A later write of its message was carried out.
    overtaken boolean NOT NULL DEFAULT false,
    LIKE {schema}.delayq_outbox
);
CREATE INDEX ON {schema}.delayq_outbox_aside USING hash (id);
CREATE INDEX ON {schema}.delayq_outbox_aside (resting, number, added);

-- How far the rows are settled; the last one counts. All that the snapshot `before` sees is settled, and of what `until`
-- sees besides, the rows up to `seq`, the last of which was inserted at `added`. Inserted only, and truncated with the rows:
-- an updated one would leave a version a batch. The first one sees nothing, so that rows may be inserted in this
-- transaction.
CREATE SEQUENCE {schema}.delayq_outbox_turn;
CREATE TABLE {schema}.delayq_outbox_progress (
    turn   bigint      NOT NULL DEFAULT nextval('{schema}.delayq_outbox_turn'),
    slot   smallint    NOT NULL DEFAULT {schema}.delayq_outbox_current(),
    before pg_snapshot NOT NULL,
    until  pg_snapshot,
    seq    bigint      NOT NULL DEFAULT 0,
    added  timestamptz,
    PRIMARY KEY (turn, slot)
) PARTITION BY LIST (slot);
CREATE TABLE {schema}.delayq_outbox_progress_0 PARTITION OF {schema}.delayq_outbox_progress FOR VALUES IN (0);
CREATE TABLE {schema}.delayq_outbox_progress_1 PARTITION OF {schema}.delayq_outbox_progress FOR VALUES IN (1);
INSERT INTO {schema}.delayq_outbox_progress (before) VALUES ('4:4:'::pg_snapshot);

-- One row. Its lock is the turn of one compensator; `cluster` is the cluster whose transactions `tx` counts.
CREATE TABLE {schema}.delayq_outbox_state (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL,
    cluster text    NOT NULL
);
INSERT INTO {schema}.delayq_outbox_state (version, cluster) SELECT 1, system_identifier::text FROM pg_control_system();
