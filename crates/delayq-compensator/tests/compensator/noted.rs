//! What cannot be noted on disk is sent no second time.

use super::{Host, drain, message, resubmitted};
use delayq::spool::SpoolRecord;
use delayq::{Fate, UnixMillis};

#[tokio::test]
async fn what_was_carried_out_and_could_not_be_noted_is_not_sent_again() {
    let host = Host::start().await;
    let record = SpoolRecord::put(&message("a"), Fate::NotApplied, UnixMillis::new(1));
    host.spool.append(vec![record]).await.unwrap();
    let fault = rusqlite::Connection::open(host.folder.join("spool.db")).unwrap();
    let set = |sql| fault.execute_batch(sql).unwrap();
    set("CREATE TRIGGER fault BEFORE DELETE ON waiting BEGIN SELECT RAISE(ABORT, 'a fault'); END");
    let mut resubmitter = host.resubmitter();
    resubmitter.run_once().await.unwrap_err();
    let keys = async || -> Vec<String> { host.deployment.server.command(&["KEYS", "*:m:*:a"]).await };
    let stored = keys().await;
    assert_eq!(stored.len(), 1, "it was put");
    let () = host.deployment.server.command(&["DEL", &stored[0]]).await;
    for _ in 0..3 {
        resubmitter.run_once().await.unwrap_err();
        assert!(keys().await.is_empty(), "it was put again");
    }
    set("DROP TRIGGER fault");
    assert_eq!(drain(&mut resubmitter).await, resubmitted(0));
    let stats = resubmitter.stats().await.unwrap();
    assert!(keys().await.is_empty() && stats.waiting == 0 && stats.balances(), "{stats:?}");
}

#[tokio::test]
async fn nothing_is_sent_whose_try_could_not_be_noted() {
    let host = Host::start().await;
    let record = SpoolRecord::put(&message("a"), Fate::NotApplied, UnixMillis::new(1));
    host.spool.append(vec![record]).await.unwrap();
    let fault = rusqlite::Connection::open(host.folder.join("spool.db")).unwrap();
    let set = |sql| fault.execute_batch(sql).unwrap();
    set("INSERT INTO begun VALUES (1, 1, 0, 0, 1)");
    set("CREATE TRIGGER fault BEFORE UPDATE ON begun BEGIN SELECT RAISE(ABORT, 'a fault'); END");
    let mut resubmitter = host.resubmitter();
    resubmitter.run_once().await.unwrap_err();
    let keys: Vec<String> = host.deployment.server.command(&["KEYS", "*:m:*:a"]).await;
    assert!(keys.is_empty(), "{keys:?}");
    set("DROP TRIGGER fault");
    assert_eq!(drain(&mut resubmitter).await, resubmitted(1));
}
