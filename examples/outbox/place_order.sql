BEGIN;
INSERT INTO orders (id) VALUES (17);
INSERT INTO outbox (verb, topic, id, due, payload)
    VALUES ('put', 'orders', 'order-17', now() + interval '30 minutes', '{"order":17}');
COMMIT;
