CREATE TABLE outbox (
    seq     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    verb    text NOT NULL CHECK (verb IN ('put', 'cancel')),
    topic   text NOT NULL,
    id      text NOT NULL,
    due     timestamptz,                          -- of a put
    payload bytea,                                -- of a put
    added   timestamptz NOT NULL DEFAULT now(),
    refused text                                  -- why it can never be carried out
);
CREATE INDEX outbox_waiting ON outbox (seq) WHERE refused IS NULL;
