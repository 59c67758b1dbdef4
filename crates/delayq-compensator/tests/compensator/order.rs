//! Writes of one message are carried out in the order of their creation, with or without an outage in between.

use super::writes::{known, known_by_ids, writes};
use super::{FAR, Host, drain, message, target, topic};
use delayq::protocol::{Layout, Scripts, Verb};
use delayq::spool::{GroupChange, GroupRecord, SpoolRecord};
use delayq::{Fate, Group, Message, PutOutcome, Shift, State, Target, Topic};
use std::time::Duration;

#[tokio::test]
async fn no_write_overtakes_an_older_one_that_waits_in_the_spool() {
    let calm = Host::start().await;
    for write in writes(120, 4) {
        write.carry_out(&calm.producer).await;
    }

    let mut host = Host::start().await;
    let mut resubmitter = host.resubmitter().await;
    for write in writes(120, 4) {
        match write.n % 40 {
            10 => drop(host.deployment.server.kill().await),
            20 => host.deployment.server.resume().await,
            // Some writes are resubmitted, and later writes wait on.
            30 => {
                host.is_reached().await;
                drop(drain(&mut resubmitter).await);
            }
            _ => {}
        }
        write.carry_out(&host.producer).await;
    }
    drain(&mut resubmitter).await;
    assert_eq!(known_by_ids(&host, 4).await, known_by_ids(&calm, 4).await);
    let stats = resubmitter.stats().await.unwrap();
    // Ten writes of each outage, and their followers.
    assert!(stats.spooled > 30 && stats.waiting == 0 && stats.balances(), "{stats:?}");
}

/// The first letter of the id names the group.
fn grouped(id: &str) -> Message {
    message(id).group(&id[..1]).unwrap()
}

async fn known_in_groups(host: &Host) -> Vec<String> {
    let ids = ["g1", "g2", "g3", "g4", "g5", "h1"];
    let target = |id: &str| Target { group: Some(Group::new(&id[..1]).unwrap()), ..target(id) };
    known(host, ids.map(target)).await
}

#[tokio::test]
async fn changes_of_a_group_are_spooled_and_neither_overtake_nor_are_overtaken() {
    let (group, hour) = (Group::new("g").unwrap(), Shift::Later(Duration::from_secs(3600)));
    let calm = Host::start().await;
    for id in ["g1", "g2", "h1"] {
        calm.put(grouped(id)).await;
    }
    assert_eq!(calm.producer.cancel_group(&group).await.unwrap().changed, 2);
    calm.put(grouped("g3")).await;
    assert_eq!(calm.producer.reschedule_group(&group, hour, "t").await.unwrap().changed, 1);
    for id in ["g4", "g5"] {
        calm.put(grouped(id)).await;
    }

    let mut host = Host::start().await;
    host.put(grouped("g1")).await;
    host.deployment.server.kill().await;
    assert_eq!(host.put(grouped("g2")).await, PutOutcome::Spooled);
    assert!(host.producer.cancel_group(&group).await.unwrap().spooled);
    assert_eq!(host.put(grouped("g3")).await, PutOutcome::Spooled);
    host.deployment.server.resume().await;
    host.is_back().await;
    // Redis could take all of these, but earlier writes wait.
    assert!(host.producer.reschedule_group(&group, hour, "t").await.unwrap().spooled);
    assert_eq!(host.put(grouped("g4")).await, PutOutcome::Spooled);
    assert_eq!(host.put(grouped("h1")).await, PutOutcome::Stored(FAR));
    let other = host.producer.cancel_group(&Group::new("other").unwrap()).await.unwrap();
    assert!(!other.spooled && other.changed == 0);
    let mut resubmitter = host.resubmitter().await;
    let done = drain(&mut resubmitter).await;
    assert!(done.resubmitted >= 5 && done.rejected == 0, "{done:?}");
    host.put(grouped("g5")).await;
    assert_eq!(known_in_groups(&host).await, known_in_groups(&calm).await);
    assert_eq!(resubmitter.stats().await.unwrap().waiting, 0);
}

#[tokio::test]
async fn a_shift_of_a_group_that_is_busy_rests_with_the_later_writes_of_the_group_alone() {
    let host = Host::start().await;
    let group = Group::new("g").unwrap();
    // The shift takes more than one step, so that another caller's shift can be cut off in between.
    let puts = (0..600).map(|n| grouped(&format!("g{n}"))).collect();
    assert!(host.producer.put_many(puts).await.iter().all(Result::is_ok));
    let shard =
        Layout::new(host.deployment.client.shards()).placement_of(&target("g0").id, Some(&group)).home;
    let (meta, never) = (format!("{{dq:{}}}:meta", shard.get()), format!("{{dq:{}}}:never", shard.get()));
    let script = Scripts::published().get(Verb::ShiftGroup).source.clone();
    let step: Vec<String> = host
        .deployment
        .server
        .command(&["EVAL", &script, "2", &meta, &never, "1", "g", "", "other", "1000", "500"])
        .await;
    assert_eq!(step[0], "more");

    let shift = GroupChange::Shift { by: Shift::from_millis(5), token: "mine".to_owned() };
    let record = GroupRecord {
        group: group.clone(),
        topic: None,
        tried_at: FAR,
        fate: Fate::NotApplied,
        change: shift,
    };
    host.spool.append_group(&record, false).await.unwrap();
    assert_eq!(host.put(grouped("g600")).await, PutOutcome::Spooled);
    host.spool.append(vec![SpoolRecord::put(&message("a"), Fate::NotApplied, FAR)]).await.unwrap();
    let mut resubmitter = host.resubmitter().await;
    let done = loop {
        let report = resubmitter.run_once().await.unwrap();
        assert!(report.held.is_none() && report.rejected == 0, "{report:?}");
        if report.at_end {
            break report;
        }
    };
    assert_eq!(done.resting, 2, "the shift, and the put behind it");
    assert!(resubmitter.resting().unwrap().contains("another shift of group g"));
    assert_eq!(
        host.deployment
            .producer
            .reschedule_group(&group, Shift::from_millis(1000), "other")
            .await
            .unwrap()
            .changed,
        100
    );
    resubmitter.try_again();
    assert_eq!(drain(&mut resubmitter).await.resubmitted, 2);
    let target = Target { group: Some(group), ..target("g600") };
    let put = &known(&host, [target]).await[0];
    assert!(put.contains(&FAR.get().to_string()), "it was put after the shift: {put}");
}

#[tokio::test]
async fn a_spooled_change_of_a_group_in_one_topic_leaves_its_messages_of_others_alone() {
    let host = Host::start().await;
    let (group, mail) = (Group::new("g").unwrap(), Topic::new("mail").unwrap());
    let in_mail = Message::new(mail.clone(), "x").id("m1").unwrap().at(FAR).with_group(group.clone());
    for message in [grouped("g1"), in_mail] {
        assert_eq!(host.put(message).await, PutOutcome::Stored(FAR));
    }
    let shift = GroupChange::Shift { by: Shift::from_millis(5), token: "t".to_owned() };
    for (topic, change) in [(mail.clone(), shift), (topic(), GroupChange::Cancel)] {
        let (group, topic) = (group.clone(), Some(topic));
        let record = GroupRecord { group, topic, tried_at: FAR, fate: Fate::NotApplied, change };
        host.spool.append_group(&record, false).await.unwrap();
    }
    assert_eq!(drain(&mut host.resubmitter().await).await.resubmitted, 2);
    let admin = &host.deployment.admin;
    let found = async |topic: &Topic, id: &str| {
        let target = Target { group: Some(group.clone()), ..target(id) };
        admin.topic(topic).get(&target).await.unwrap().unwrap().envelope.unwrap()
    };
    assert_eq!(found(&topic(), "g1").await.state, State::Cancelled);
    let kept = found(&mail, "m1").await;
    assert_eq!((kept.state, kept.due.get()), (State::Delayed, FAR.get() + 5));
}
