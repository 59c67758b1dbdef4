
-- Notices for `[outbox] notify`: a transaction with rows takes a lock of the whole cluster while it commits.
CREATE FUNCTION {schema}.delayq_outbox_notify() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN NOTIFY delayq_outbox; RETURN NULL; END$$;
CREATE TRIGGER delayq_outbox_notify AFTER INSERT ON {schema}.delayq_outbox
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.delayq_outbox_notify();
