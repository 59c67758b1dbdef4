//! Odd values in each argument of each script: refused or handled, and the shard still works.

use crate::action::{Action, Item};
use crate::bare_shard::{BareShard, NOW, scripts_with};
use crate::snapshot::lossy;
use delayq::protocol::Verb;
use delayq_tests::redis_server::{RedisServer, SharedRedis};

/// Calls of each script with arguments besides the layout, without scripts that create or move a shard.
const CALLS: [(Verb, &[&str]); 46] = [
    (Verb::Ack, &["1:a\0\0\0\x02"]),
    (Verb::Audit, &["m:1:a"]),
    (Verb::AuditIndex, &["10", "leases", "", "", "all"]),
    (Verb::Bury, &["1:a\0\0\0\x02", "why"]),
    (Verb::Cancel, &["odd", "a"]),
    (Verb::CancelGroup, &["g", "", "0", "", "10"]),
    (Verb::Claim, &["one", "0", ""]),
    (Verb::Configure, &["odd", "max_attempts", "3"]),
    (Verb::Count, &["odd", "0"]),
    (Verb::Describe, &["odd"]),
    (Verb::Dictionary, &["1", ""]),
    (Verb::Extend, &["1:a\0\0\0\x02", "1000"]),
    (Verb::Finish, &["odd", "any", "a"]),
    (Verb::Forget, &["odd", "look"]),
    (Verb::ForgetQuiet, &["0", "1000"]),
    (Verb::Histogram, &["odd", "0", "9", "60000"]),
    (Verb::History, &["odd", "a", ""]),
    (Verb::Hold, &["0", "off"]),
    (Verb::Identify, &[""]),
    (Verb::List, &["odd", "ready", "0", "9", "asc", "", "10"]),
    (Verb::ListGroup, &["g", "0", "", "10"]),
    (Verb::Meter, &["calls", "1", "1000"]),
    (Verb::Overview, &["first"]),
    (Verb::PauseGroup, &["odd", "pause", "g"]),
    (Verb::PauseGroup, &["odd", "resume", "g"]),
    (Verb::PausedGroups, &["odd", "", "", "10"]),
    (Verb::Peek, &["odd", "a"]),
    (Verb::Pump, &["0", "10", "1", "1"]),
    (Verb::Pump, &["", "10"]),
    (Verb::Promote, &["odd", "", "0", "9", "", "10"]),
    (Verb::Promote, &["odd", "g", "0", "9", "", "10"]),
    (Verb::Purge, &["odd", "ready", "0", "9", "", "10"]),
    (Verb::Put, &["odd", "a", "1763697600000", "", ENVELOPE]),
    (Verb::Put, &["odd", "b", "+5", "replace tried=1", ENVELOPE]),
    (Verb::Put, &["odd", "b", "+5", "replace within=1000 keep", ENVELOPE]),
    (Verb::Recount, &["odd", "look", "", "0", "0"]),
    (Verb::Release, &["1:a\0\0\0\x02", "0", "keep", "why"]),
    (Verb::Repair, &["no_lease", "m", "1:a"]),
    (Verb::Operate, &["odd", "", "cancel", "a", "2", "1763697600000"]),
    (Verb::Operate, &["odd", "00112233aabbccdd", "bury why", "a", "2", "1763697600000"]),
    (Verb::Swap, &["one", "0", "text"]),
    (Verb::Replay, &["odd", "0", "a"]),
    (Verb::Replay, &["odd", "0 1 1000", "a"]),
    (Verb::Reschedule, &["odd", "a", "by +5", "1763697600000"]),
    (Verb::Reserve, &["10", "0", "1000", "odd"]),
    (Verb::ShiftGroup, &["g", "", "token", "1", "10"]),
];

/// A head without a hash: an envelope without a payload.
const ENVELOPE: &str = "\x01\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

const ODD: [&[u8]; 16] = [
    b"",
    b" ",
    b"007",
    b"00",
    b"-0",
    b"-1",
    b"+1",
    b"1e3",
    b"0x10",
    b"nan",
    b"inf",
    b"4503599627370496",
    b"9007199254740991",
    b"9007199254740992",
    &[b'9'; 400],
    b"\0\r\n\xff",
];

async fn shard(server: &SharedRedis) -> BareShard {
    let mut shard = BareShard::create(server, "o", scripts_with(&[])).await;
    shard.clock_us = Some(NOW * 1000);
    let put =
        Action::Put { topic: "odd".into(), items: vec![Item::new(b"a", NOW), Item::new(b"b", NOW + 9)] };
    shard.call(Verb::Put, &put.args()).await.unwrap();
    shard
}

async fn works(shard: &mut BareShard, what: &str) {
    let claimed =
        shard.call(Verb::Claim, &["owner", "0", ""]).await.unwrap_or_else(|why| panic!("{what}: {why}"));
    let (epoch, id) = (claimed[1].clone(), shard.clock_us.unwrap().to_string().into_bytes());
    let put = Action::Put { topic: "works".into(), items: vec![Item::new(&id, "+1")] };
    assert_eq!(lossy(&shard.call(Verb::Put, &put.args()).await.unwrap()[1]), "stored", "{what}");
    shard.clock_us = shard.clock_us.map(|us| us + 1000);
    let pumped = shard.call(Verb::Pump, &[epoch, b"500".to_vec()]).await;
    let pumped = pumped.unwrap_or_else(|why| panic!("{what}: {why}"));
    assert!(["pumped", "more"].contains(&lossy(&pumped[0]).as_str()), "{what}: {}", lossy(&pumped[0]));
    let reserved = shard.call(Verb::Reserve, &["1", "0", "", "works"]).await.unwrap();
    let receipt = reserved.get(10).unwrap_or_else(|| panic!("{what}: {reserved:?}"));
    assert_eq!(lossy(&shard.call(Verb::Ack, &[receipt]).await.unwrap()[0]), "delivered", "{what}");
}

#[tokio::test]
async fn no_odd_argument_wedges_a_shard_or_fails_without_a_name() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    works(&mut shard, "at first").await;
    for (verb, args) in CALLS {
        for place in 0..args.len() {
            for odd in ODD {
                let mut args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
                args[place] = odd;
                let what =
                    format!("{} {:?}", verb.name(), args.iter().map(|arg| lossy(arg)).collect::<Vec<_>>());
                if let Err(why) = shard.call(verb, &args).await {
                    assert!(why.starts_with("DQARG "), "{what}: {why}");
                    let is_plain = |c: char| c.is_ascii_graphic() || c == ' ';
                    assert!(why.chars().all(is_plain), "{what}: {why:?}");
                }
            }
        }
        works(&mut shard, verb.name()).await;
    }
}

#[tokio::test]
async fn an_epoch_that_is_written_oddly_or_past_all_claims_does_not_wedge_its_shard() {
    let server = RedisServer::start().await;
    let mut shard = shard(&server).await;
    for (epoch, refused) in
        [("007", false), ("9007199254740991", true), ("4503599627370497", true), ("4503599627370496", false)]
    {
        let pumped = shard.call(Verb::Pump, &[epoch, "500"]).await;
        assert_eq!(pumped.is_err(), refused, "{epoch}: {pumped:?}");
        assert!(pumped.is_ok() || pumped.unwrap_err().starts_with("DQARG the epoch"), "{epoch}");
        works(&mut shard, epoch).await;
    }
}
