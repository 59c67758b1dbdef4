//! Writes that were carried out, but could not be noted on disk.

use super::{FAR, Host, drain, message, resubmitted, topic};
use delayq::spool::{AnyRecord, GroupChange, GroupRecord, SpoolRecord};
use delayq::{Admin, Fate, Group, Message, PutOutcome, Shift, State, UnixMillis};
use delayq_spool::SpoolReader;

/// While this exists, no waiting record can be removed.
struct Fault(rusqlite::Connection);

// === impl Fault ===

impl Fault {
    fn of(host: &Host) -> Self {
        let database = rusqlite::Connection::open(host.folder.join("spool.db")).unwrap();
        let trigger =
            "CREATE TRIGGER fault BEFORE DELETE ON waiting BEGIN SELECT RAISE(ABORT, 'a fault'); END";
        database.execute_batch(trigger).unwrap();
        Self(database)
    }

    fn ends(&self) {
        self.0.execute_batch("DROP TRIGGER fault").unwrap();
    }
}

async fn keys(host: &Host, pattern: &str) -> Vec<String> {
    host.deployment.server.command(&["KEYS", pattern]).await
}

fn put(message: &Message) -> SpoolRecord {
    SpoolRecord::put(message, Fate::NotApplied, UnixMillis::new(1))
}

fn in_group(id: &str) -> Message {
    message(id).group("g").unwrap()
}

fn change(change: GroupChange) -> GroupRecord {
    let group = Group::new("g").unwrap();
    GroupRecord { group, topic: None, tried_at: UnixMillis::new(1), fate: Fate::NotApplied, change }
}

fn shift() -> GroupRecord {
    change(GroupChange::Shift { by: Shift::from_millis(5), token: "t".to_owned() })
}

#[tokio::test]
async fn what_was_carried_out_and_could_not_be_noted_is_not_carried_out_again() {
    for is_the_same_process in [true, false] {
        let host = Host::start().await;
        host.spool.append(vec![put(&message("a"))]).await.unwrap();
        let fault = Fault::of(&host);
        let mut resubmitter = host.resubmitter().await;
        resubmitter.run_once().await.unwrap_err();
        let stored = keys(&host, "*:m:*:a").await;
        assert_eq!(stored.len(), 1, "it was put");
        let () = host.deployment.server.command(&["DEL", &stored[0]]).await;
        for _ in 0..3 {
            if !is_the_same_process {
                drop(resubmitter);
                resubmitter = host.resubmitter().await;
            }
            resubmitter.run_once().await.unwrap_err();
            assert!(keys(&host, "*:m:*:a").await.is_empty(), "it was put again");
        }
        assert_eq!(keys(&host, "*:carried").await.len(), 1);
        fault.ends();
        drain(&mut resubmitter).await;
        let stats = resubmitter.stats().await.unwrap();
        assert!(stats.waiting == 0 && stats.replayed == 1 && stats.balances(), "{stats:?}");
        assert!(keys(&host, "*:m:*:a").await.is_empty(), "it was put again");
        assert!(keys(&host, "*:carried").await.is_empty(), "once it is noted, Redis forgets it");
    }
}

#[tokio::test]
async fn nothing_behind_a_groups_cancel_is_sent_before_that_is_noted_or_its_repeat_would_undo_it() {
    let host = Host::start().await;
    host.spool.append(vec![put(&in_group("before"))]).await.unwrap();
    host.spool.append_group(&change(GroupChange::Cancel), false).await.unwrap();
    host.spool.append(vec![put(&in_group("behind"))]).await.unwrap();
    let fault = Fault::of(&host);
    let mut resubmitter = host.resubmitter().await;
    resubmitter.run_once().await.unwrap_err();
    drop(resubmitter);
    fault.ends();
    assert_eq!(drain(&mut host.resubmitter().await).await, resubmitted(3));
    let before = host.present(in_group("before")).await;
    assert!(matches!(before, PutOutcome::Exists(State::Cancelled, _)), "{before:?}");
    assert_eq!(host.present(in_group("behind")).await, PutOutcome::Exists(State::Delayed, FAR));
}

#[tokio::test]
async fn a_shift_that_may_have_been_made_over_an_hour_ago_is_not_made_again() {
    let host = Host::start().await;
    host.put(in_group("a")).await;
    host.spool.append_group(&shift(), false).await.unwrap();
    let fault = Fault::of(&host);
    let mut resubmitter = host.resubmitter().await;
    resubmitter.run_once().await.unwrap_err();
    drop(resubmitter);
    // Redis has forgotten the token, whose time is over by the clock.
    let cursors = keys(&host, "*:shift:g").await;
    let () = host.deployment.server.command(&["DEL", &cursors[0]]).await;
    fault.0.execute_batch("UPDATE waiting SET spooled_ms = spooled_ms + 7200000").unwrap();
    fault.ends();
    assert_eq!(drain(&mut host.resubmitter().await).await.rejected, 1);
    let shifted = UnixMillis::new(FAR.get() + 5);
    assert_eq!(host.present(in_group("a")).await, PutOutcome::Exists(State::Delayed, shifted));
}

#[tokio::test]
async fn a_shift_that_did_not_reach_redis_stays_one_that_was_never_tried() {
    let mut host = Host::start().await;
    host.spool.append_group(&shift(), false).await.unwrap();
    host.deployment.server.kill().await;
    // A write on the breaking connection may have arrived; later writes find no server.
    Admin::new(host.deployment.client.clone()).topic(&topic()).count().await.unwrap_err();
    let report = host.resubmitter().await.run_once().await.unwrap();
    assert!(report.held.is_some(), "{report:?}");
    let waiting = SpoolReader::open_beside(host.folder.path()).unwrap().waiting(0, 1).unwrap();
    let Ok(AnyRecord::Group(found)) = &waiting[0].record else { panic!("{waiting:?}") };
    assert_eq!(found.fate, Fate::NotApplied);
}

#[tokio::test]
async fn a_put_whose_producer_got_no_answer_is_put_once_by_however_many_compensators() {
    let host = Host::start().await;
    // The try came long before, so that only its own message can have been delivered.
    let tried = SpoolRecord::put(&message("a").replace(), Fate::Unknown, FAR);
    host.spool.append(vec![tried]).await.unwrap();
    let fault = Fault::of(&host);
    host.resubmitter().await.run_once().await.unwrap_err();
    let cancelled = host.deployment.producer.cancel(&topic(), &super::target("a")).await.unwrap();
    assert_eq!(cancelled, delayq::CancelOutcome::Cancelled);
    host.resubmitter().await.run_once().await.unwrap_err();
    fault.ends();
    assert_eq!(drain(&mut host.resubmitter().await).await, resubmitted(1));
    let found = host.present(message("a")).await;
    assert!(matches!(found, PutOutcome::Exists(State::Cancelled, _)), "{found:?}");
}
