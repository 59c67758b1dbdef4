-- The outbox of delayq in MySQL 8.0.16, MariaDB 10.6 or newer, version 1. A row of delayq_outbox asks for one write:
--
--     INSERT INTO delayq_outbox (topic, id, due, payload)
--     VALUES ('orders', 'order-17', NOW(6) + INTERVAL 30 MINUTE, '{"order":17}');
--
-- Rows are only inserted by producers, and deleted once they are settled. What a producer needs:
--
--     GRANT INSERT ON delayq_outbox TO app;
--
-- Each statement commits by itself; all of them may be run again.

CREATE TABLE IF NOT EXISTS delayq_outbox (
    -- The order of rows. Never set these two: their defaults are right.
    seq          BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    added        TIMESTAMP(6)    NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    -- What to do with which message.
    verb         VARCHAR(16)     NOT NULL DEFAULT 'put',
    topic        TEXT            NOT NULL,
    id           TEXT            NOT NULL,
    group_id     TEXT            NULL,
    -- Of a put and a reschedule: a time, or milliseconds from `added`; a put without either is due at once.
    due          TIMESTAMP(6)    NULL DEFAULT NULL,
    delay_ms     BIGINT          NULL,
    -- Of a reschedule: only if the message is due at this time.
    expected     TIMESTAMP(6)    NULL DEFAULT NULL,
    -- Of a put. Headers are an object, or an array of [name, value].
    payload      LONGBLOB        NULL,
    headers      JSON            NULL,
    expires      TIMESTAMP(6)    NULL DEFAULT NULL,
    max_attempts INT             NULL,
    replaces     BOOLEAN         NOT NULL DEFAULT FALSE,
    -- Of a put that replaces: how it meets a pending message: later, sooner, content or within=MS; keep; and
    -- expected=MS and hash=HASH.
    again        VARCHAR(96)     NULL,
    CHECK (verb IN ('put', 'cancel', 'reschedule')),
    CHECK (delay_ms >= 0),
    CHECK (max_attempts BETWEEN 0 AND 65535),
    CHECK (due IS NULL OR delay_ms IS NULL),
    CHECK (verb <> 'reschedule' OR due IS NOT NULL OR delay_ms IS NOT NULL),
    CHECK (verb <> 'cancel' OR (due IS NULL AND delay_ms IS NULL)),
    CHECK (verb = 'reschedule' OR expected IS NULL),
    CHECK (verb = 'put' OR (payload IS NULL AND headers IS NULL AND expires IS NULL AND max_attempts IS NULL AND NOT replaces)),
    CHECK (again IS NULL OR replaces)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Rows that could not be carried out: rejected for good, or resting and tried again from time to time.
CREATE TABLE IF NOT EXISTS delayq_outbox_aside (
    number       BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    resting      BOOLEAN         NOT NULL,
    reason       TEXT            NOT NULL,
    since        TIMESTAMP(6)    NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    -- A later write of its message was carried out.
    overtaken    BOOLEAN         NOT NULL DEFAULT FALSE,
    seq          BIGINT UNSIGNED NOT NULL,
    added        TIMESTAMP(6)    NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    verb         VARCHAR(16)     NOT NULL,
    topic        TEXT            NOT NULL,
    id           TEXT            NOT NULL,
    group_id     TEXT            NULL,
    due          TIMESTAMP(6)    NULL DEFAULT NULL,
    delay_ms     BIGINT          NULL,
    expected     TIMESTAMP(6)    NULL DEFAULT NULL,
    payload      LONGBLOB        NULL,
    headers      JSON            NULL,
    expires      TIMESTAMP(6)    NULL DEFAULT NULL,
    max_attempts INT             NULL,
    replaces     BOOLEAN         NOT NULL,
    again        VARCHAR(96)     NULL,
    INDEX (id(255)),
    INDEX (resting, number, added)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row. Its lock is the turn of one compensator.
CREATE TABLE IF NOT EXISTS delayq_outbox_state (
    one     TINYINT NOT NULL PRIMARY KEY CHECK (one = 1),
    version INT     NOT NULL
) ENGINE = InnoDB;
INSERT IGNORE INTO delayq_outbox_state (one, version) VALUES (1, 1);
