BEGIN;
INSERT INTO orders (id) VALUES (17);
INSERT INTO delayq_outbox (topic, id, due, payload)
    VALUES ('orders', 'order-17', now() + interval '30 minutes', convert_to('{"order":17}', 'UTF8'));
COMMIT;
