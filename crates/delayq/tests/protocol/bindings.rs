//! The calls that the Rust bindings send to Redis, compared with KEYS and ARGV in the scripts' headers.

use crate::headers::part_of;
use delayq::admin::{
    Action, ListState, Policy, PromoteOptions, PurgeWhat, ReplayOptions, Tag, TimeRange, TopicDeletion,
};
use delayq::protocol::{
    FinishWhich, Holder, Owner, RecordId, Recorded, Release, ReserveRequest, Scripts, ShardId, Verb,
};
use delayq::{
    Admin, Client, Due, Group, Message, MessageId, Producer, ProducerOptions, Reschedule, Settings,
    ShardCount, Shift, Target, Topic, UnixMillis,
};
use delayq_tests::redis_monitor::RedisMonitor;
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use std::collections::BTreeMap;
use std::time::Duration;

const SHARD: ShardId = ShardId::new(0);

#[derive(Debug)]
struct Signature {
    fixed: Vec<String>,
    each: Option<usize>,
}

// === impl Signature ===

impl Signature {
    /// Reads `layout, a, b, then 2 a message: c, d`; further descriptions are indented below.
    fn of(verb: Verb) -> Self {
        let text = part_of(verb, "-- ARGV     ", "-- RETURNS  ");
        let block: Vec<&str> = text
            .lines()
            .take_while(|line| !line.starts_with("--            "))
            .map(|line| line.trim_start_matches("--").trim())
            .collect();
        let text = block.join(" ");
        let text = text.split(". ").next().unwrap_or_default();
        let list = |text: &str| text.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
        if let Some((fixed, items)) = text.split_once(", then ") {
            let each = items.split(' ').next().and_then(|n| n.parse().ok()).expect("how many for each item");
            let (_, names) = items.split_once(':').expect("what there is for each item");
            assert_eq!(list(names).len(), each, "{}: {names}", verb.name());
            return Self { fixed: list(fixed), each: Some(each) };
        }
        let mut fixed = list(text);
        let repeats = fixed.last().is_some_and(|name| name == "…");
        if repeats {
            fixed.truncate(fixed.len() - 2);
        }
        Self { fixed, each: repeats.then_some(1) }
    }

    fn takes(&self, count: usize) -> bool {
        let behind = count.checked_sub(self.fixed.len());
        match self.each {
            Some(each) => behind.is_some_and(|behind| behind % each == 0 && behind <= 500 * each),
            None => behind == Some(0),
        }
    }
}

/// Reads the minimum and the maximum of each argument, such as `limit (1 to 500)`.
fn ranges(verb: Verb) -> Vec<(String, u64, u64)> {
    let file = verb.file();
    let start = file.find("-- ARGV     ").expect("a header says what it takes");
    let end = file.find("-- RETURNS  ").expect("a header says what it returns");
    let text = file[start + 12..end].replace("\n--", " ");
    let mut found = Vec::new();
    for (at, _) in text.match_indices(" (") {
        let name = text[..at].rsplit([',', ':']).next().unwrap_or_default().trim().to_owned();
        let inside = &text[at + 2..];
        let words: Vec<&str> = inside.split([' ', ')', ';', ',']).collect();
        if let [least, "to", most, ..] = words[..]
            && let (Ok(least), Ok(most)) = (least.parse(), most.parse())
        {
            found.push((name, least, most));
        }
    }
    found
}

fn record() -> (Target, RecordId) {
    (MessageId::own("recorded").unwrap().into(), RecordId::of([b"a source".as_slice()]))
}

async fn everything(server: &SharedRedis) {
    let mut settings = Settings::new(server.url());
    settings.shards = ShardCount::new(1).unwrap();
    let client = Client::new(settings);
    Admin::new(client.clone()).init().await.unwrap();
    Admin::new(client.clone()).check_server().await.unwrap();
    let (producer, admin) =
        (Producer::start(client.clone(), ProducerOptions::default()), Admin::new(client.clone()));
    let topic = Topic::new("t").unwrap();
    Owner::new(client.clone()).claim(&[SHARD], "one", Duration::from_secs(10)).await.remove(0).unwrap();
    Owner::new(client.clone()).hold(SHARD, 1, false).await.unwrap();
    Admin::new(client.clone()).shards().layouts(&[SHARD]).await.remove(0).unwrap();
    moves(&client, &producer, &topic).await;
    admin.topic(&topic).set_policy(&Policy { max_attempts: Some(3), ..Policy::default() }).await.unwrap();
    Admin::new(client.clone()).topic(&topic).policy().await.unwrap();
    let empty = Topic::new("empty").unwrap();
    admin.topic(&empty).pause().await.unwrap();
    let group = Group::new("user-5").unwrap();
    admin.topic(&empty).pause_group(&group).await.unwrap();
    assert_eq!(admin.topic(&empty).paused_groups().await.unwrap()[0].group, group);
    admin.topic(&empty).resume_group(&group).await.unwrap();
    assert_eq!(admin.topic(&empty).delete().await.unwrap(), TopicDeletion::Deleted);
    Owner::new(client.clone()).survey(SHARD, 0, &[Duration::from_secs(60)]).await.unwrap();
    Owner::new(client.clone()).forget_quiet(SHARD, 0, Duration::from_secs(1)).await.unwrap();
    let reserved =
        Holder::new(client.clone()).reserve(&[(SHARD, request(&topic))]).await.remove(0).unwrap().messages;
    let mut receipts = reserved.into_iter().map(|message| message.receipt);
    let mut next = || receipts.next().expect("there are four");
    Holder::new(client.clone()).bury(&[(next(), "of no use".to_owned())]).await.remove(0).unwrap();
    Holder::new(client.clone()).extend(&[next()], Some(Duration::from_secs(1))).await.remove(0).unwrap();
    let release =
        Release { receipt: next(), delay: Some(Duration::ZERO), keep_attempt: true, reason: String::new() };
    Holder::new(client.clone()).release(&[release]).await.remove(0).unwrap();
    Holder::new(client.clone()).ack(&[next()]).await.remove(0).unwrap();
    admin.topic(&topic).replay(&ReplayOptions::default()).await.unwrap();
    let unknown = [MessageId::own("unknown").unwrap().into()];
    producer.finish_many(&topic, FinishWhich::Any, &unknown).await.remove(0).unwrap();
    admin.gateways().count_call("calls", Duration::from_secs(1)).await.unwrap();
    let tag = Tag { generation: 1, due: UnixMillis::new(1) };
    admin.topic(&topic).act_on(&unknown[0], tag, &Action::Bury("of no use".to_owned())).await.unwrap();
    admin.operations().swap_note("one", 0, "text").await.unwrap();
    looks(&client, &admin, &topic).await;
    Recorded::by(&producer).settled(&[record()]).await.unwrap();
    admin.promote(&topic, &PromoteOptions::default(), |_| {}).await.unwrap();
    admin.topic(&topic).purge(PurgeWhat::Dead(TimeRange::ALL), |_| {}).await.unwrap();
    let samples =
        (0..200).map(|n| Message::new(topic.clone(), format!("{{\"order\":{n},\"state\":\"open\"}}")));
    drop(producer.put_many(samples.map(|sample| sample.after(Duration::from_secs(3600))).collect()).await);
    admin.dictionaries().train(&topic, 200).await.unwrap();
    stick(server, &client, &topic).await;
    let audit = admin.audit().run(|_| {}).await.unwrap();
    assert!(!audit.is_clean());
    admin.audit().repair(audit, |_| {}).await.unwrap();
    admin.shards().grow(ShardCount::new(2).unwrap(), |_| {}).await.unwrap();
}

fn request(topic: &Topic) -> ReserveRequest {
    ReserveRequest { topics: vec![topic.clone()], most: 4, max_bytes: 0, lease: None }
}

async fn stick(server: &SharedRedis, client: &Client, topic: &Topic) {
    let producer = Producer::start(client.clone(), ProducerOptions::default());
    producer.put(Message::new(topic.clone(), "stuck")).await.unwrap();
    Holder::new(client.clone()).reserve(&[(SHARD, request(topic))]).await.remove(0).unwrap();
    let () = server.command(&["DEL", "{dq:0}:leases"]).await;
}

async fn moves(client: &Client, producer: &Producer, topic: &Topic) {
    let message = |id: &str| Message::new(topic.clone(), "x").id(id).unwrap();
    let group = Group::new("g").unwrap();
    for id in ["a", "b", "c", "d"] {
        producer.put(message(id)).await.unwrap();
    }
    let far = Duration::from_secs(3600);
    producer.put(message("far").after(far)).await.unwrap();
    producer.put(message("grouped").with_group(group.clone()).after(far)).await.unwrap();
    let target = Target::from(MessageId::own("far").unwrap());
    let later = Reschedule::To(Due::After(Duration::from_secs(7200)));
    producer.reschedule(topic, &target, later).await.unwrap();
    producer.cancel(topic, &target).await.unwrap();
    let second = Shift::Later(Duration::from_secs(1));
    assert!(!producer.reschedule_group(&group, second, "token").await.unwrap().busy);
    assert!(!producer.cancel_group(&group).await.unwrap().busy);
    Owner::new(client.clone()).pump(&[(SHARD, Some(1))], 500, None).await.remove(0).unwrap();
    Owner::new(client.clone()).pump(&[(SHARD, None)], 500, Some(UnixMillis::MAX)).await.remove(0).unwrap();
}

async fn looks(client: &Client, admin: &Admin, topic: &Topic) {
    admin.topic(topic).count().await.unwrap();
    let target = Target::from(MessageId::own("a").unwrap());
    admin.topic(topic).get(&target).await.unwrap();
    admin.topic(topic).history(&target).await.unwrap();
    admin.topic(topic).list(ListState::Delayed, TimeRange::ALL, 10).await.unwrap();
    admin.list_group(&Group::new("g").unwrap(), 10).await.unwrap();
    admin.topic(topic).histogram(TimeRange::ALL, Duration::from_secs(60)).await.unwrap();
    Admin::new(client.clone()).shards().overview_of(&[SHARD]).await.remove(0).unwrap();
}

#[test]
fn every_script_takes_as_many_arguments_as_its_header_says() {
    for &verb in Verb::ALL {
        let header = Signature::of(verb);
        let call = format!("arguments('{}', ", verb.name());
        let counts = verb.file().split(&call).last().and_then(|rest| rest.split(')').next()).expect("a call");
        let mut counts = counts.split(", ").map(|count| count.parse::<usize>().ok());
        // `pump` has two optional arguments at the end.
        let fixed = counts.next().flatten().unwrap_or(5);
        assert_eq!(
            (header.fixed.len(), header.each),
            (fixed, counts.next().flatten()),
            "{}: {header:?}",
            verb.name()
        );
        let keys = part_of(verb, "-- KEYS     ", "-- ARGV     ");
        assert_eq!(keys.lines().next(), Some("{ns:shard}:meta, {ns:shard}:never"), "{}", verb.name());
        assert_eq!(header.fixed.first().map(String::as_str), Some("layout"), "{}", verb.name());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bindings_send_the_keys_and_arguments_that_the_headers_name() {
    let server = RedisServer::private().await;
    let monitor = RedisMonitor::start(&server).await;
    everything(&server).await;
    let scripts = Scripts::published();
    let verbs: BTreeMap<&str, Verb> =
        Verb::ALL.iter().map(|&verb| (scripts.get(verb).sha.as_str(), verb)).collect();
    let mut called: BTreeMap<&str, usize> = BTreeMap::new();
    for seen in monitor.seen(&server).await {
        let Some(&verb) = seen.text(0).and_then(|sha| verbs.get(sha)).filter(|_| seen.name == "evalsha")
        else {
            continue;
        };
        *called.entry(verb.name()).or_default() += 1;
        let name = verb.name();
        let keys: Vec<_> = (1..4).filter_map(|at| seen.text(at)).collect();
        let base = keys[1].strip_suffix(":meta").unwrap_or_else(|| panic!("{name}: {keys:?}"));
        assert_eq!((keys[0], keys[2]), ("2", format!("{base}:never").as_str()), "{name}");
        let (header, args) = (Signature::of(verb), &seen.args[4..]);
        let optional = if verb == Verb::Pump { header.fixed.len() - args.len() } else { 0 };
        assert!(header.takes(args.len() + optional), "{name} was sent {args:?}, not {header:?}");
        for (argument, least, most) in ranges(verb) {
            let Some(at) = header.fixed.iter().position(|known| *known == argument) else { continue };
            let Some(text) = seen.text(4 + at).filter(|text| !text.is_empty()) else { continue };
            let number: u64 = text.parse().unwrap_or_else(|_| panic!("{name}: {argument} is {text}"));
            assert!((least..=most).contains(&number), "{name}: {argument} is {number}");
        }
        for (at, words) in header.fixed.iter().enumerate().filter(|(_, words)| words.contains(" | ")) {
            let word = seen.text(4 + at).unwrap_or_default();
            assert!(words.split(" | ").any(|known| known == word), "{name}: {word} is none of {words}");
        }
    }
    // A single Redis has no other node to move a shard to: `redis_nodes_moved` calls these two.
    let apart = [Verb::Discard, Verb::Move];
    let called_here = Verb::ALL.iter().filter(|verb| !apart.contains(verb)).map(|verb| verb.name());
    let missing: Vec<_> = called_here.filter(|name| !called.contains_key(name)).collect();
    assert!(missing.is_empty(), "never called: {missing:?}");
}
