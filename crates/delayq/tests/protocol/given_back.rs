//! Side effects of a repair: alarms, and reasons of dead letters.

use crate::action::Action;
use crate::bare_shard::{BareShard, NOW, scripts_with};
use crate::lab::{Lab, grouped, in_g, item};
use crate::snapshot::lossy;
use std::collections::BTreeSet;

/// Has a repair restore a dead letter, a member of a group and an expiry; returns the alarms that the repair
/// sets. `broken` replaces parts of the script.
async fn alarms_of_a_repair(broken: &[(&str, &str, &str)]) -> BTreeSet<String> {
    let mut lab = Lab::new().await;
    lab.shard = BareShard::create(&lab.server, "q", scripts_with(broken)).await;
    lab.at(0);
    lab.put("a", &[item("dead", NOW), grouped("alone", NOW + 1000)]).await;
    let receipts = lab.reserve("a").await;
    assert_eq!(lab.words(Action::Bury { receipts }).await, ["buried"]);
    for key in ["~d:1", "~g:g", "~expiries"] {
        lab.shard.command(&[b"DEL", key.as_bytes()]).await;
    }
    lab.shard.command(&[b"ZREM", b"~alarms", b"expiries"]).await;
    let before = lab.shard.snapshot().await;
    let alone = format!("1:{}", in_g("alone"));
    let findings = [("no_dead_entry", "1:dead"), ("no_group_entry", &alone), ("no_expiry_entry", &alone)]
        .map(|(kind, name)| [kind, "m", name].map(|part| part.as_bytes().to_vec()));
    assert_eq!(lab.words(Action::Repair { findings: findings.into() }).await, ["mended"; 3]);
    let after = lab.shard.snapshot().await;
    let had = before.index("alarms");
    after.index("alarms").keys().filter(|alarm| !had.contains_key(*alarm)).map(|alarm| lossy(alarm)).collect()
}

#[tokio::test]
async fn no_alarm_rings_for_what_is_given_back_to_an_index_without_times() {
    assert_eq!(alarms_of_a_repair(&[]).await, BTreeSet::from(["expiries".to_owned()]));
    let always = ("repair", "if RINGS[index] then alarm(index, score) end", "alarm(index, score)");
    let never = (always.0, always.1, "");
    let all = ["d:1", "expiries", "g:g"].map(str::to_owned);
    assert_eq!(
        alarms_of_a_repair(&[always]).await,
        BTreeSet::from(all),
        "the check sees a script that always rings"
    );
    assert!(alarms_of_a_repair(&[never]).await.is_empty(), "and one that never does");
}

#[tokio::test]
async fn the_reason_of_a_dead_letter_whose_body_is_gone_goes_with_its_entry() {
    let mut lab = Lab::new().await;
    lab.put("a", &[item("gone", NOW), item("kept", NOW)]).await;
    let receipts = lab.reserve("a").await;
    assert_eq!(lab.words(Action::Bury { receipts }).await, ["buried", "buried"]);
    lab.shard.command(&[b"DEL", b"~m:1:gone"]).await;
    let shard = lab.shard.snapshot().await;
    assert_eq!(shard.reasons.len(), 2);
    let finding =
        |(_, member, _): &(u32, Vec<u8>, u64)| [b"stale_entry".to_vec(), b"d:1".to_vec(), member.clone()];
    let findings = shard.dead.iter().map(finding).collect();
    let mut words = lab.words(Action::Repair { findings }).await;
    words.sort();
    assert_eq!(words, ["mended", "sound"]);
    let shard = lab.shard.snapshot().await;
    assert_eq!(shard.reasons.keys().cloned().collect::<Vec<_>>(), [(1, b"kept".to_vec())]);
}
