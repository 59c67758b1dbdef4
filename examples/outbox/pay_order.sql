BEGIN;
UPDATE orders SET paid = true WHERE id = 17;
INSERT INTO outbox (verb, topic, id) VALUES ('cancel', 'orders', 'order-17');
COMMIT;
