BEGIN;
UPDATE orders SET paid = true WHERE id = 17;
INSERT INTO delayq_outbox (verb, topic, id) VALUES ('cancel', 'orders', 'order-17');
COMMIT;
