//! A group scopes its own ids: every call has the same answer for every number of shards, before and after a growth.
//!
//! Random calls for few ids, in few groups and in none, go to deployments of 1, 2 and 7 shards and to a map in memory.

use delayq::admin::{Listing, TimeRange};
use delayq::{
    CancelOutcome, Due, Group, Members, Message, MessageId, PutOutcome, Reschedule, RescheduleOutcome,
    ShardCount, Shift, State, Target, Topic, UnixMillis,
};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::RedisServer;
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const IDS: [&str; 3] = ["k1", "k2", "user-5"];
const GROUPS: [Option<&str>; 4] = [None, Some("user-5"), Some("user-6"), Some("k1")];
const GENERATED: usize = 2;
const FAR: u64 = 4_102_444_800_000;
const STEPS: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Own(&'static str, Option<&'static str>),
    Generated(usize),
}

#[derive(Clone, Copy, Debug)]
struct Step {
    name: Name,
    group: Option<&'static str>,
    op: Op,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Put { content: &'static str, due: u64, replace: bool },
    Cancel,
    Reschedule { due: u64 },
    Get,
}

#[derive(Clone, Debug, PartialEq)]
struct Stored {
    content: &'static str,
    due: u64,
    cancelled: bool,
}

#[derive(Debug, Default)]
struct Model(BTreeMap<Name, Stored>);

struct Party {
    deployment: Deployment,
    topic: Topic,
    generated: Vec<MessageId>,
}

// === impl Model ===

impl Model {
    fn answer(&mut self, Step { name, group: _, op }: Step) -> String {
        let found = self.0.get_mut(&name);
        match (op, found) {
            (Op::Put { content, due, replace }, found) => {
                if let Some(Stored { content: old, due, cancelled }) = found.filter(|_| !replace) {
                    let word = if *old == content { "exists" } else { "conflict" };
                    return if *cancelled { format!("{word} cancelled") } else { format!("{word} {due}") };
                }
                self.0.insert(name, Stored { content, due, cancelled: false });
                format!("stored {due}")
            }
            (Op::Get, None) => "nothing".to_owned(),
            (_, None) => "unknown".to_owned(),
            (Op::Cancel, Some(stored)) => {
                stored.cancelled = true;
                "cancelled".to_owned()
            }
            (Op::Reschedule { .. } | Op::Get, Some(Stored { cancelled: true, .. })) => "cancelled".to_owned(),
            (Op::Reschedule { due }, Some(stored)) => {
                format!("moved {} {due}", std::mem::replace(&mut stored.due, due))
            }
            (Op::Get, Some(Stored { content, due, .. })) => format!("{content} {due}"),
        }
    }

    fn pending(&self, of: Option<&str>) -> BTreeSet<String> {
        let group_of = |name: &Name| match name {
            Name::Own(_, group) => *group,
            Name::Generated(_) => Some("user-5"),
        };
        let listed = |(name, stored): (&Name, &Stored)| {
            let id = if let Name::Own(id, _) = name { id } else { "generated" };
            format!("{id} {:?} {} {}", group_of(name), stored.content, stored.due)
        };
        let is_listed = |(name, stored): &(&Name, &Stored)| {
            !stored.cancelled && of.is_none_or(|group| group_of(name) == Some(group))
        };
        self.0.iter().filter(is_listed).map(listed).collect()
    }
}

// === impl Party ===

impl Party {
    async fn new(shards: u16) -> Self {
        let deployment = Deployment::new(shards).await;
        let topic = Topic::new("orders").unwrap();
        let mut generated = Vec::new();
        for n in 0..GENERATED {
            let message = Message::new(topic.clone(), "generated").at(UnixMillis::new(FAR + n as u64));
            let put = deployment.producer.put(message.group("user-5").unwrap()).await.unwrap();
            generated.push(put.reference.id);
        }
        Self { deployment, topic, generated }
    }

    fn shards(&self) -> u16 {
        self.deployment.client.shards().get()
    }

    fn target(&self, Step { name, group, .. }: Step) -> Target {
        let id = match name {
            Name::Own(id, _) => MessageId::own(id).unwrap(),
            Name::Generated(n) => self.generated[n].clone(),
        };
        Target { id, group: group.map(|group| Group::new(group).unwrap()) }
    }

    async fn answer(&self, step: Step) -> String {
        let Deployment { producer, admin, .. } = &self.deployment;
        let (topic, target) = (&self.topic, self.target(step));
        match step.op {
            Op::Put { content, due, replace } => {
                let message =
                    Message::new(topic.clone(), content).at(UnixMillis::new(due)).with_id(target.id.clone());
                let message = match &target.group {
                    Some(group) => message.with_group(group.clone()),
                    None => message,
                };
                let message = if replace { message.replace() } else { message };
                let put = producer.put(message).await.unwrap();
                assert_eq!(Target::from(put.reference), target);
                match put.outcome {
                    PutOutcome::Stored(due) => format!("stored {due}"),
                    PutOutcome::Exists(State::Cancelled, _) => "exists cancelled".to_owned(),
                    PutOutcome::Exists(_, due) => format!("exists {due}"),
                    PutOutcome::Conflict(State::Cancelled, _) => "conflict cancelled".to_owned(),
                    PutOutcome::Conflict(_, due) => format!("conflict {due}"),
                    other => format!("{other:?}"),
                }
            }
            Op::Cancel => match producer.cancel(topic, &target).await.unwrap() {
                CancelOutcome::Cancelled => "cancelled".to_owned(),
                CancelOutcome::Unknown => "unknown".to_owned(),
                other => format!("{other:?}"),
            },
            Op::Reschedule { due } => {
                let to = Reschedule::To(Due::At(UnixMillis::new(due)));
                match producer.reschedule(topic, &target, to).await.unwrap() {
                    RescheduleOutcome::Moved { old, due, ready: false } => format!("moved {old} {due}"),
                    RescheduleOutcome::Finished(State::Cancelled, _) => "cancelled".to_owned(),
                    RescheduleOutcome::Unknown => "unknown".to_owned(),
                    other => format!("{other:?}"),
                }
            }
            Op::Get => {
                let Some(found) = admin.topic(topic).get(&target).await.unwrap() else {
                    return "nothing".to_owned();
                };
                assert_eq!(found.id, target.id);
                let is_own = matches!(found.id, MessageId::Own(_));
                assert!(!is_own || found.group == target.group, "{found:?}");
                let envelope = found.envelope.unwrap();
                match envelope.state {
                    State::Cancelled => "cancelled".to_owned(),
                    _ => format!("{} {}", String::from_utf8(envelope.payload).unwrap(), envelope.due),
                }
            }
        }
    }

    async fn pending(&self, of: Option<&str>) -> BTreeSet<String> {
        let (group, state) = (of.map(|group| Group::new(group).unwrap()), delayq::admin::ListState::Delayed);
        let listing = match &group {
            Some(group) => Listing::Group { group, topic: None },
            None => Listing::Topic { topic: &self.topic, state, range: TimeRange::ALL },
        };
        let (mut all, mut next) = (BTreeSet::new(), None);
        loop {
            // Small pages, which begin behind a message by its name.
            let page = self.deployment.admin.page(listing, next.as_ref(), 2).await.unwrap();
            for found in page.messages {
                let envelope = found.envelope.unwrap();
                assert_eq!(found.group, envelope.group);
                let id = if let MessageId::Own(_) = found.id {
                    found.id.to_string()
                } else {
                    "generated".to_owned()
                };
                let (group, content) =
                    (found.group.as_ref().map(Group::as_str), String::from_utf8(envelope.payload).unwrap());
                assert!(all.insert(format!("{id} {group:?} {content} {}", envelope.due)));
            }
            next = page.next;
            if next.is_none() {
                return all;
            }
        }
    }
}

fn step(rng: &mut Rng, n: usize) -> Step {
    let group = GROUPS[rng.usize(..GROUPS.len())];
    let due = FAR + 10 * n as u64 + 100;
    let put = Op::Put { content: ["a", "b"][rng.usize(..2)], due, replace: rng.u8(..4) == 0 };
    let op = [put, put, Op::Cancel, Op::Reschedule { due }, Op::Get][rng.usize(..5)];
    if !matches!(op, Op::Put { .. }) && rng.u8(..8) == 0 {
        return Step { name: Name::Generated(rng.usize(..GENERATED)), group, op };
    }
    Step { name: Name::Own(IDS[rng.usize(..IDS.len())], group), group, op }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_with_a_wrong_or_missing_group_answers_alike_for_every_number_of_shards() {
    for seed in 0..4 {
        answers_alike(seed).await;
    }
}

async fn answers_alike(seed: u64) {
    let mut parties = Vec::new();
    for shards in [1, 2, 7] {
        parties.push(Party::new(shards).await);
    }
    let mut model = Model::default();
    for n in 0..GENERATED {
        let stored = Stored { content: "generated", due: FAR + n as u64, cancelled: false };
        model.0.insert(Name::Generated(n), stored);
    }
    let mut rng = Rng::with_seed(seed);
    for n in 0..STEPS {
        if n == STEPS / 2 {
            for party in &parties {
                let more = ShardCount::new(party.shards() + 4).unwrap();
                party.deployment.admin.shards().grow(more, |_| {}).await.unwrap();
            }
        }
        let step = step(&mut rng, n);
        let expected = model.answer(step);
        for party in &parties {
            assert_eq!(
                party.answer(step).await,
                expected,
                "seed {seed}, {} shards, step {n}: {step:?}",
                party.shards()
            );
        }
    }
    for of in GROUPS {
        for party in &parties {
            assert_eq!(
                party.pending(of).await,
                model.pending(of),
                "seed {seed}, {} shards, group {of:?}",
                party.shards()
            );
        }
    }
    for party in &parties {
        let audit = party.deployment.admin.audit().run(|_| {}).await.unwrap();
        assert!(audit.is_clean(), "{audit:?}");
    }
}

#[tokio::test]
async fn a_group_is_changed_in_one_topic_alone_for_every_number_of_shards() {
    for shards in [1, 2, 7] {
        let deployment = Deployment::on(RedisServer::start().await, shards).await;
        let (group, by) = (Group::new("user-5").unwrap(), Shift::Later(Duration::from_secs(60)));
        let [orders, reminders] = ["orders", "reminders"].map(|topic| Topic::new(topic).unwrap());
        for topic in [&orders, &reminders] {
            let message = Message::new(topic.clone(), "x").id("k1").unwrap().at(UnixMillis::new(FAR));
            deployment.put([message.with_group(group.clone())]).await;
        }
        let of = |topic: &Topic| Members::of_topic(group.clone(), topic.clone());
        let producer = &deployment.producer;
        assert_eq!(producer.reschedule_group(of(&reminders), by, "t").await.unwrap().changed, 1);
        assert_eq!(producer.cancel_group(of(&orders)).await.unwrap().changed, 1);
        let target = Target::in_group(MessageId::own("k1").unwrap(), group.clone());
        let found = async |topic: &Topic| {
            deployment.admin.topic(topic).get(&target).await.unwrap().unwrap().envelope.unwrap()
        };
        assert_eq!(found(&orders).await.state, State::Cancelled);
        let kept = found(&reminders).await;
        assert_eq!((kept.state, kept.due.get()), (State::Delayed, FAR + 60_000));
        assert_eq!(producer.cancel_group(&group).await.unwrap().changed, 1, "all that is left");
    }
}
