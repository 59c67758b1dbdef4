//! The database as the second copy of a Redis that lost all its data.

use crate::stand::{Stand, ms};
use delayq_compensator::{Reconcile, Reconciled};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_pending_is_put_again_where_redis_lost_it_and_nothing_else() {
    let stand = Stand::start_with(|config| {
        config.rotate_every = ms(1000);
        config.keep = ms(3_600_000);
    })
    .await;
    let database = stand.database().await;
    database
        .batch_execute(
            "INSERT INTO delayq_outbox (verb, topic, id, due, payload) VALUES
               ('put', 'orders', 'kept', '2100-01-01Z', 'a'), ('put', 'orders', 'moved', '2100-01-01Z', 'b'),
               ('put', 'orders', 'cancelled', '2100-01-01Z', 'c'), ('put', 'orders', 'past', '2000-01-01Z', 'd'),
               ('reschedule', 'orders', 'moved', '2100-01-02Z', NULL), ('cancel', 'orders', 'cancelled', NULL, NULL)",
        )
        .await
        .unwrap();
    let reader = stand.read();
    stand.is_settled(6).await;
    let what = Reconcile { since: Duration::from_secs(3600), overdue: Duration::ZERO, dry_run: false };
    let run =
        async |what| stand.keeper().reconcile(&stand.deployment.producer, what, |_, _| {}).await.unwrap();
    let whole = Reconciled { rows: 6, known: 2, cancelled: 1, overdue: 1, ..Reconciled::default() };
    assert_eq!(run(what).await, whole);

    let _: String = stand.deployment.server.command(&["FLUSHALL"]).await;
    stand.deployment.admin.init().await.unwrap();
    let lost = Reconciled { known: 0, put: 2, ..whole.clone() };
    assert_eq!(run(Reconcile { dry_run: true, ..what }).await, lost);
    assert!(stand.stored("kept", None).await.is_none());
    assert_eq!(run(what).await, lost);
    assert_eq!(run(what).await, whole);
    assert_eq!(stand.stored("kept", None).await.unwrap().payload, b"a");
    assert_eq!(stand.stored("moved", None).await.unwrap().due.get(), 4_102_531_200_000);
    assert!(stand.stored("cancelled", None).await.is_none());
    let centuries = Duration::from_secs(100 * 365 * 86_400);
    assert_eq!(
        run(Reconcile { overdue: centuries, ..what }).await,
        Reconciled { put: 1, overdue: 0, ..whole }
    );
    database.batch_execute(&crate::stand::put(0..5)).await.unwrap();
    stand.is_settled(11).await;
    reader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_discarded_or_may_be_of_another_message_is_not_put() {
    let stand = Stand::start_with(|config| config.keep = ms(3_600_000)).await;
    let database = stand.database().await;
    database
        .batch_execute(
            "INSERT INTO delayq_outbox (topic, id, due, added) VALUES
               ('orders', 'again', now() - interval '30 minutes', now() - interval '40 minutes'),
               ('orders', 'again', now() + interval '1 day', now());
             INSERT INTO delayq_outbox (topic, id, due) VALUES ('a b', 'discarded', '2100-01-01Z'),
               ('orders', 'kept', '2100-01-01Z'), ('a b', 'waits', '2100-01-01Z')",
        )
        .await
        .unwrap();
    let reader = stand.read();
    stand.is_all_settled().await;
    reader.end().await;
    let mut keeper = stand.keeper();
    let aside = keeper.aside(false, 0, 10).await.unwrap();
    let discarded = aside.iter().find(|row| row.row.id() == "discarded").unwrap().number;
    assert_eq!(keeper.discard(&[discarded]).await.unwrap(), [discarded]);
    // Not carried out yet, and invalid.
    database.batch_execute("INSERT INTO delayq_outbox (topic, id) VALUES ('a b', 'new')").await.unwrap();
    let what =
        Reconcile { since: Duration::from_secs(3600), overdue: Duration::from_secs(60), dry_run: false };
    let found = keeper.reconcile(&stand.deployment.producer, what, |_, _| {}).await.unwrap();
    let expected = Reconciled { rows: 4, known: 1, unclear: 1, refused: 1, ..Reconciled::default() };
    assert_eq!(found, expected);
}
