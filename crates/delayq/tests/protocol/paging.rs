//! Steps and pages skip nothing, whatever leaves the index in between.

use crate::action::{Action, Item};
use crate::bare_shard::{BareShard, scripts_with};
use crate::lab::in_g;
use crate::snapshot::lossy;
use delayq::protocol::Verb;
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use std::collections::BTreeSet;

const NOW: u64 = 1_763_697_600_000;
const ALL: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

async fn shard(server: &SharedRedis, due: impl Fn(u64) -> u64) -> BareShard {
    let mut shard = BareShard::create(server, "p", scripts_with(&[])).await;
    shard.clock_us = Some(NOW * 1000);
    let item = |(n, id): (u64, &&str)| Item::new(id.as_bytes(), due(n)).in_group("g");
    let items = (0..).zip(&ALL).map(item).collect();
    shard.call(Verb::Put, &Action::Put { topic: "t".into(), items }.args()).await.unwrap();
    shard
}

async fn words(shard: &mut BareShard, verb: Verb, args: &[impl AsRef<[u8]>]) -> Vec<Vec<u8>> {
    shard.call(verb, args).await.unwrap()
}

async fn lease(shard: &mut BareShard, most: &str) -> Vec<Vec<u8>> {
    let answer = words(shard, Verb::Reserve, &["100", "0", most, "t"]).await;
    answer[9..].chunks(3).map(|message| message[1].clone()).collect()
}

fn own_id(stored: &[u8]) -> String {
    lossy(stored.strip_suffix(b"\x1fg").unwrap())
}

fn is(answer: &[Vec<u8>], wanted: &[&str]) -> bool {
    answer.iter().map(|word| lossy(word)).eq(wanted.iter().map(ToString::to_string))
}

#[tokio::test]
async fn a_member_that_is_acked_between_two_steps_keeps_no_other_from_being_cancelled() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server, |n| if n < 2 { NOW } else { NOW + 1000 }).await;
    let held = lease(&mut shard, "60000").await;
    // Both leased messages stay in the group until acked.
    let step = words(&mut shard, Verb::CancelGroup, &["g", "", "0", "", "2"]).await;
    assert!(is(&step[2..], &["0", "2", "0"]), "{step:?}");
    words(&mut shard, Verb::Ack, &held).await;
    let mut cancelled = 0;
    let mut behind = step;
    while !behind[0].is_empty() {
        let args = [b"g".as_slice(), b"", &behind[0], &behind[1], b"2"];
        behind = words(&mut shard, Verb::CancelGroup, &args).await;
        cancelled += lossy(&behind[2]).parse::<u32>().unwrap();
    }
    assert_eq!(cancelled, 4);
}

#[tokio::test]
async fn a_member_that_is_acked_between_two_steps_keeps_no_other_from_being_shifted() {
    for by in ["60000", "-500"] {
        let server = RedisServer::start().await;
        // One time for all, so that a count of skipped entries would be a rank.
        let mut shard = shard(&server, |_| NOW + 1000).await;
        for id in ["a", "f"] {
            words(&mut shard, Verb::Reschedule, &["t", &in_g(id), &NOW.to_string(), ""]).await;
        }
        let held = lease(&mut shard, "60000").await;
        let mut moved = 0;
        for _ in 0..8 {
            let step = words(&mut shard, Verb::ShiftGroup, &["g", "", "token", by, "1"]).await;
            moved += lossy(&step[1]).parse::<u32>().unwrap();
            let leased = shard.snapshot().await.index("leases").len();
            if lossy(&step[2]) == "1" && leased > 0 {
                words(&mut shard, Verb::Ack, &held).await;
            }
        }
        assert_eq!(moved, 4, "by {by}");
    }
}

async fn listed(shard: &mut BareShard, state: &str, gone: &[&str]) -> BTreeSet<String> {
    let (mut shown, mut from, mut last) = (BTreeSet::new(), b"0".to_vec(), Vec::new());
    for page in 0.. {
        let to = (NOW * 2).to_string();
        let args = [
            b"t".as_slice(),
            state.as_bytes(),
            &from,
            to.as_bytes(),
            b"asc",
            last.as_slice(),
            b"2".as_slice(),
        ];
        let answer = words(shard, Verb::List, &args).await;
        shown.extend(answer[3..].chunks(2).map(|message| own_id(&message[0])));
        if answer[1].is_empty() {
            break;
        }
        (from, last) = (answer[1].clone(), answer[2].clone());
        if page == 0 && state == "ready" {
            words(shard, Verb::Reserve, &["3", "0", "60000", "t"]).await;
        } else if page == 0 {
            let gone = gone.iter().map(|id| in_g(id));
            let args: Vec<String> = std::iter::once("t".to_owned()).chain(gone).collect();
            words(shard, Verb::Cancel, &args).await;
        }
    }
    shown
}

#[tokio::test]
async fn a_page_of_a_list_passes_nothing_over_where_what_stood_before_it_has_gone() {
    let all: BTreeSet<String> = ALL.map(str::to_owned).into();
    for (at_once, gone) in [(true, vec!["a"]), (true, vec!["a", "b"]), (false, vec!["b", "a"])] {
        let server = RedisServer::start().await;
        let due = |n: u64| NOW + 1000 + if at_once { 0 } else { n * 1_000_000 };
        let mut shard = shard(&server, due).await;
        assert_eq!(listed(&mut shard, "delayed", &gone).await, all, "{gone:?} gone");
    }
    // One ready message was taken before its page.
    let server = RedisServer::start().await;
    let mut shard = shard(&server, |_| NOW).await;
    let shown = listed(&mut shard, "ready", &[]).await;
    assert_eq!(shown, all.into_iter().filter(|id| id != "c").collect());
}

#[tokio::test]
async fn a_page_of_a_group_passes_nothing_over_where_what_stood_before_it_has_gone() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server, |_| NOW + 1000).await;
    let first = words(&mut shard, Verb::ListGroup, &["g", "0", "", "2"]).await;
    words(&mut shard, Verb::Cancel, &["t", &in_g("a"), &in_g("b")]).await;
    let next = words(&mut shard, Verb::ListGroup, &[b"g".as_slice(), &first[2], &first[3], b"100"]).await;
    let ids: Vec<String> = next[4..].chunks(3).map(|message| own_id(&message[1])).collect();
    assert_eq!((lossy(&next[1]), ids.concat()), ("4".into(), "cdef".into()));
}

#[tokio::test]
async fn a_message_that_a_purge_has_to_keep_keeps_no_other() {
    for (state, due) in [("delayed", NOW + 1000), ("ready", NOW)] {
        let server = RedisServer::start().await;
        let mut shard = shard(&server, |_| due).await;
        for id in ["b", "c", "d"] {
            // A later format.
            shard.command(&[b"SETRANGE", format!("~m:1:{}", in_g(id)).as_bytes(), b"0", b"\x02"]).await;
        }
        let (mut tally, mut from, mut last) = ((0, 0), b"0".to_vec(), Vec::new());
        for _ in 0..20 {
            let to = (NOW * 2).to_string();
            let args =
                [b"t".as_slice(), state.as_bytes(), &from, to.as_bytes(), last.as_slice(), b"2".as_slice()];
            let step = words(&mut shard, Verb::Purge, &args).await;
            let number = |at: usize| lossy(&step[at]).parse::<u32>().unwrap();
            tally = (tally.0 + number(1), tally.1 + number(2));
            if lossy(&step[0]) == "done" {
                break;
            }
            (from, last) = (step[3].clone(), step[4].clone());
        }
        assert_eq!(tally, (3, 3), "{state}");
    }
}

/// Pages through the ready messages, `limit` a page; calls `between` before each page but the first.
async fn ready_ids(
    shard: &mut BareShard,
    limit: &str,
    mut between: impl FnMut(usize) -> Option<Action>,
) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), Vec::new());
    for page in 0..100 {
        if let Some(action) = between(page) {
            shard.call(action.verb(), &action.args()).await.unwrap();
        }
        let args = [b"t".as_slice(), b"ready", b"0", b"9", b"asc", &cursor, limit.as_bytes()];
        let answer = words(shard, Verb::List, &args).await;
        ids.extend(answer[3..].chunks(2).map(|one| lossy(&one[0])));
        cursor = answer[2].clone();
        if answer[1].is_empty() {
            return ids;
        }
    }
    panic!("no end after 100 pages: {ids:?}");
}

fn put(ids: &[String]) -> Action {
    Action::Put { topic: "t".into(), items: ids.iter().map(|id| Item::new(id.as_bytes(), "+0")).collect() }
}

#[tokio::test]
async fn a_clock_that_was_set_back_hides_no_ready_message_and_makes_no_listing_endless() {
    let server = RedisServer::start().await;
    for limit in ["1", "2", "5", "500"] {
        let mut shard = BareShard::create(&server, &format!("c{limit}"), scripts_with(&[])).await;
        let mut wanted = Vec::new();
        // The clock goes forward and back by turns.
        for (step, ms) in [0, 60_000, 1000, 90_000, 500, 30_000].into_iter().enumerate() {
            shard.clock_us = Some((NOW + ms) * 1000);
            let ids: Vec<String> = (0..3).map(|n| format!("{step}-{n}")).collect();
            let action = put(&ids);
            shard.call(action.verb(), &action.args()).await.unwrap();
            wanted.extend(ids);
        }
        assert_eq!(ready_ids(&mut shard, limit, |_| None).await, wanted, "pages of {limit}");
    }
}

#[tokio::test]
async fn a_listing_of_ready_messages_ends_while_others_come_and_go_and_shows_all_that_stay() {
    let server = RedisServer::start().await;
    let mut shard = BareShard::create(&server, "m", scripts_with(&[])).await;
    shard.clock_us = Some(NOW * 1000);
    let ids: Vec<String> = (0..40).map(|n| format!("{n:02}")).collect();
    let action = put(&ids);
    shard.call(action.verb(), &action.args()).await.unwrap();
    // Before each page, two messages leave at the head and three come in behind.
    let mut news = 0;
    let shown = ready_ids(&mut shard, "5", |page| {
        news += 1;
        Some(match page % 2 {
            0 => Action::Reserve(crate::action::Reserve::from("t", 2, Some(1000))),
            _ => put(&(0..3).map(|n| format!("new-{news}-{n}")).collect::<Vec<_>>()),
        })
    })
    .await;
    let stayed = ids.iter().skip(12);
    assert!(stayed.clone().all(|id| shown.contains(id)), "{shown:?}");
    assert!(shown.len() <= 40, "{shown:?}");
}
