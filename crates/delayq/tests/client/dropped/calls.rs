//! All awaited calls, each dropped at each of its awaits. A call that is missing here fails the test.

use crate::dropped::polled::{at_each_await, dropped_after};
use delayq::admin::{
    Action, ListState, Listing, Policy, PolicySetting, PromoteOptions, PurgeWhat, ReplayOptions, ReplayTerms,
    SelectCursor, SelectState, Selection, Step, Tag, TimeRange,
};
use delayq::protocol::{
    BooksAt, FinishWhich, Holder, Leased, Link, Owner, Probe, Receipt, RecordId, Recorded, Release,
    ReserveRequest, ShardId,
};
use delayq::{
    Admin, Client, Due, Group, LinkSettings, Message, MessageId, Producer, Reschedule, ShardCount, Shift,
    Target, Topic, UnixMillis,
};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::{Deployment, settings};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

const SHARDS: u16 = 2;
const SHARD: ShardId = ShardId::new(0);
const HOUR: Duration = Duration::from_secs(3600);
const TAG: Tag = Tag { generation: 1, due: UnixMillis::new(1) };

struct Scene {
    deployment: Deployment,
    client: Client,
    producer: Producer,
    admin: Admin,
    owner: Owner,
    holder: Holder,
    topic: Topic,
    target: Target,
    group: Group,
}

/// A call, and true if the call completes without outside events.
type Call = (&'static str, bool, fn(&Scene) -> LocalBoxFuture<'_, ()>);

macro_rules! call {
    ($name:literal, $scene:ident, $call:expr) => {
        ($name, true, |$scene: &Scene| {
            async move {
                let _ = $call.await;
            }
            .boxed_local()
        })
    };
    ($name:literal waits, $scene:ident, $call:expr) => {
        ($name, false, |$scene: &Scene| {
            async move {
                let _ = $call.await;
            }
            .boxed_local()
        })
    };
}

impl Scene {
    fn selection(&self) -> Selection {
        let topics = vec![self.topic.clone()];
        Selection { topics, group: None, state: SelectState::Pending, range: TimeRange::ALL }
    }

    fn step(&self) -> Step<'_> {
        Step { shard: SHARD, topic: &self.topic, record: RecordId::of([b"a step".as_slice()]) }
    }

    async fn new() -> Self {
        let deployment = Deployment::new(SHARDS).await;
        let (topic, group) = (Topic::new("orders").unwrap(), Group::new("user-5").unwrap());
        let scene = Self {
            client: deployment.client.clone(),
            producer: deployment.producer.clone(),
            admin: deployment.admin.clone(),
            owner: Owner::new(deployment.client.clone()),
            holder: Holder::new(deployment.client.clone()),
            target: MessageId::own("a").unwrap().into(),
            topic,
            group,
            deployment,
        };
        let some = (0..50).map(|n| scene.message().id(format!("{n}")).unwrap());
        let grouped = (0..5).map(|_| scene.message().after(HOUR).with_group(scene.group.clone()));
        let dead = scene.message().max_attempts(1);
        scene.deployment.put(some.chain(grouped).chain([dead])).await;
        scene
    }

    fn message(&self) -> Message {
        Message::new(self.topic.clone(), "x".repeat(500))
    }

    /// Leases last a moment: nobody settles the leases of a dropped reserve.
    fn request(&self) -> ReserveRequest {
        let lease = Some(Duration::from_millis(1));
        ReserveRequest { topics: vec![self.topic.clone()], most: 4, max_bytes: 0, lease }
    }

    async fn reserved(&self) -> Vec<Receipt> {
        let reports = self.holder.reserve(&[(SHARD, self.request())]).await;
        reports
            .into_iter()
            .flatten()
            .flat_map(|report| report.messages)
            .map(|message| message.receipt)
            .collect()
    }
}

const CALLS: &[Call] = &[
    call!("Client::connect", scene, Client::connect(settings(scene.deployment.server.url(), SHARDS))),
    call!("Link::run", scene, async {
        let link = Link::new(LinkSettings::new(scene.deployment.server.url()));
        link.run(&redis::cmd("PING")).await
    }),
    call!("Link::pipeline", scene, async {
        let link = Link::new(LinkSettings::new(scene.deployment.server.url()));
        link.pipeline(redis::pipe().cmd("PING").cmd("PING")).await
    }),
    call!("Producer::warm", scene, scene.producer.warm(&scene.topic)),
    call!("Producer::put", scene, scene.producer.put(scene.message().id("a").unwrap())),
    call!("Producer::put_many", scene, scene.producer.put_many((0..9).map(|_| scene.message()).collect())),
    call!("Producer::reschedule", scene, {
        scene.producer.reschedule(&scene.topic, &scene.target, Reschedule::To(Due::After(HOUR)))
    }),
    call!("Producer::reschedule_many", scene, async {
        let change = (scene.target.clone(), Reschedule::To(Due::After(HOUR)));
        scene.producer.reschedule_many(&scene.topic, &[change]).await
    }),
    call!("Producer::cancel", scene, scene.producer.cancel(&scene.topic, &scene.target)),
    call!("Producer::cancel_many", scene, async {
        scene.producer.cancel_many(&scene.topic, std::slice::from_ref(&scene.target)).await
    }),
    call!("Producer::finish_many", scene, async {
        scene.producer.finish_many(&scene.topic, FinishWhich::Dead, std::slice::from_ref(&scene.target)).await
    }),
    call!("Recorded::cancel_many", scene, async {
        let (targets, record) = (std::slice::from_ref(&scene.target), Some(RecordId::of([&b"cancel"[..]])));
        Recorded::by(&scene.producer).cancel_many(&scene.topic, targets, &[record]).await
    }),
    call!("Recorded::reschedule_many", scene, async {
        let change = (scene.target.clone(), Reschedule::To(Due::After(HOUR)));
        let record = Some(RecordId::of([&b"reschedule"[..]]));
        Recorded::by(&scene.producer).reschedule_many(&scene.topic, &[change], &[record]).await
    }),
    call!("Recorded::settled", scene, async {
        let carried = [(scene.target.clone(), RecordId::of([&b"cancel"[..]]))];
        Recorded::by(&scene.producer).settled(&carried).await
    }),
    call!("Producer::reschedule_group", scene, {
        scene.producer.reschedule_group(&scene.group, Shift::Later(HOUR), "token")
    }),
    call!("Producer::cancel_group", scene, scene.producer.cancel_group(&scene.group)),
    call!("Owner::free", scene, scene.owner.free(&[SHARD], "me")),
    call!("Owner::claim", scene, scene.owner.claim(&[SHARD], "me", Duration::ZERO)),
    call!("Owner::adopt", scene, scene.owner.adopt(&[SHARD], "me")),
    call!("Owner::verify", scene, scene.owner.verify(SHARD)),
    call!("Owner::hold", scene, scene.owner.hold(SHARD, 1, false)),
    call!("Owner::pump", scene, scene.owner.pump(&[(SHARD, Some(1))], 500, None)),
    call!("Owner::survey", scene, scene.owner.survey(SHARD, 0, &[HOUR])),
    call!("Owner::books", scene, scene.owner.books(SHARD, BooksAt::default())),
    call!("Owner::redis_time", scene, scene.owner.redis_time(SHARD)),
    call!("Owner::forget_quiet", scene, scene.owner.forget_quiet(SHARD, 0, HOUR)),
    call!("Holder::topics", scene, scene.holder.topics(&[(SHARD, None)])),
    call!("Holder::reserve", scene, scene.holder.reserve(&[(SHARD, scene.request())])),
    call!("Holder::extend", scene, async {
        scene.holder.extend(&scene.reserved().await, Some(Duration::from_millis(1))).await
    }),
    call!("Holder::ack", scene, async { scene.holder.ack(&scene.reserved().await).await }),
    call!("Holder::ack_and_put", scene, async {
        let none = || Receipt::new(SHARD, b"1:none\0\0\0\0".to_vec());
        let receipt = scene.reserved().await.pop().unwrap_or_else(none);
        let (topic, id) = (scene.topic.clone(), MessageId::own("before").unwrap());
        let next = Message::new(topic.clone(), "next");
        scene.holder.ack_and_put(&Leased { receipt, topic, id, group: None }, next).await
    }),
    call!("Holder::bury", scene, async {
        let buried: Vec<_> =
            scene.reserved().await.into_iter().map(|one| (one, "of no use".to_owned())).collect();
        scene.holder.bury(&buried).await
    }),
    call!("Holder::release", scene, async {
        let (delay, reason) = (Some(Duration::ZERO), String::new());
        let released = |receipt| Release { receipt, delay, keep_attempt: true, reason: reason.clone() };
        let releases: Vec<_> = scene.reserved().await.into_iter().map(released).collect();
        scene.holder.release(&releases).await
    }),
    call!("Probe::time", scene, async { Probe::by(&scene.producer).time(SHARD).await }),
    call!("Probe::takes_writes", scene, async { Probe::by(&scene.producer).takes_writes(SHARD).await }),
    call!("Probe::takes_puts", scene, async { Probe::by(&scene.producer).takes_puts(&[SHARD]).await }),
    call!("Probe::confirms_groups", scene, async {
        Probe::by(&scene.producer).confirms_groups(&[SHARD]).await
    }),
    call!("TopicAdmin::count", scene, scene.admin.topic(&scene.topic).count()),
    call!("Admin::count", scene, scene.admin.count(std::slice::from_ref(&scene.topic))),
    call!("ShardsAdmin::overview", scene, scene.admin.shards().overview()),
    call!("ShardsAdmin::overview_of", scene, scene.admin.shards().overview_of(&[SHARD])),
    call!("Admin::topics", scene, scene.admin.topics()),
    call!("TopicAdmin::histogram", scene, {
        scene.admin.topic(&scene.topic).histogram(TimeRange::ALL, Duration::from_secs(60))
    }),
    call!("TopicAdmin::get", scene, scene.admin.topic(&scene.topic).get(&scene.target)),
    call!("TopicAdmin::history", scene, scene.admin.topic(&scene.topic).history(&scene.target)),
    call!(
        "TopicAdmin::list",
        scene,
        scene.admin.topic(&scene.topic).list(ListState::Delayed, TimeRange::ALL, 10)
    ),
    call!("Admin::list_group", scene, scene.admin.list_group(&scene.group, 10)),
    call!("Admin::page", scene, async {
        let (topic, state, range) = (&scene.topic, ListState::Ready, TimeRange::ALL);
        scene.admin.page(Listing::Topic { topic, state, range }, None, 10).await
    }),
    call!("Admin::walk", scene, scene.admin.walk(None)),
    call!("Walk::step", scene, async { scene.admin.walk(None).await.unwrap().step().await }),
    call!("TopicAdmin::policy", scene, scene.admin.topic(&scene.topic).policy()),
    call!("TopicAdmin::set_policy", scene, async {
        scene.admin.topic(&scene.topic).set_policy(&Policy::default()).await
    }),
    call!("TopicAdmin::change_policy", scene, async {
        scene.admin.topic(&scene.topic).change_policy(&Policy::default(), &[PolicySetting::Lease]).await
    }),
    call!("TopicAdmin::pause", scene, scene.admin.topic(&scene.topic).pause()),
    call!("TopicAdmin::resume", scene, scene.admin.topic(&scene.topic).resume()),
    call!("TopicAdmin::pause_group", scene, scene.admin.topic(&scene.topic).pause_group(&scene.group)),
    call!("TopicAdmin::resume_group", scene, scene.admin.topic(&scene.topic).resume_group(&scene.group)),
    call!("TopicAdmin::paused_groups", scene, scene.admin.topic(&scene.topic).paused_groups()),
    call!("TopicAdmin::set_rate", scene, scene.admin.topic(&scene.topic).set_rate(None)),
    call!("DictionariesAdmin::train", scene, scene.admin.dictionaries().train(&scene.topic, 100)),
    call!("DictionariesAdmin::get", scene, scene.admin.dictionaries().get(1)),
    call!("DictionariesAdmin::keep", scene, scene.admin.dictionaries().keep(1, b"no dictionary")),
    call!("TopicAdmin::replay", scene, async {
        scene.admin.topic(&scene.topic).replay(&ReplayOptions::default()).await
    }),
    call!("TopicAdmin::replay_ids", scene, async {
        scene.admin.topic(&scene.topic).replay_ids(std::slice::from_ref(&scene.target), HOUR).await
    }),
    call!("TopicAdmin::replay_renewed", scene, async {
        let terms = ReplayTerms { max_attempts: 2, expires_after: None };
        scene.admin.topic(&scene.topic).replay_renewed(std::slice::from_ref(&scene.target), terms).await
    }),
    call!("TopicAdmin::act_on", scene, async {
        scene.admin.topic(&scene.topic).act_on(&scene.target, TAG, &Action::Cancel).await
    }),
    call!("TopicAdmin::bury", scene, scene.admin.topic(&scene.topic).bury(&scene.target, "of no use")),
    call!("OperationsAdmin::cut", scene, scene.admin.operations().cut(&scene.selection())),
    call!("OperationsAdmin::count", scene, scene.admin.operations().count(&scene.selection())),
    call!("OperationsAdmin::select", scene, async {
        let cut = "1:0=0".parse().unwrap();
        scene.admin.operations().select(&scene.selection(), &cut, &SelectCursor::default(), 10).await
    }),
    call!("OperationsAdmin::act", scene, async {
        let items = [(scene.target.clone(), TAG)];
        scene.admin.operations().act(scene.step(), &Action::Promote, &items).await
    }),
    call!("OperationsAdmin::acted", scene, scene.admin.operations().acted(scene.step())),
    call!("OperationsAdmin::forget_acted", scene, scene.admin.operations().forget_acted(scene.step())),
    call!("OperationsAdmin::notes", scene, scene.admin.operations().notes()),
    call!("OperationsAdmin::note", scene, scene.admin.operations().note("a")),
    call!("OperationsAdmin::swap_note", scene, async {
        scene.admin.operations().swap_note("a", 0, "text").await
    }),
    call!("Admin::promote", scene, async {
        scene.admin.promote(&scene.topic, &PromoteOptions::default(), |_| {}).await
    }),
    call!("TopicAdmin::horizon", scene, async {
        scene.admin.topic(&scene.topic).horizon(&[UnixMillis::new(0), UnixMillis::MAX]).await
    }),
    call!("TopicAdmin::horizon_of_group", scene, async {
        let edges = [UnixMillis::new(0), UnixMillis::MAX];
        scene.admin.topic(&scene.topic).horizon_of_group(&scene.group, &edges).await
    }),
    call!("TopicAdmin::histogram_of_group", scene, {
        scene.admin.topic(&scene.topic).histogram_of_group(
            &scene.group,
            TimeRange::ALL,
            Duration::from_secs(60),
        )
    }),
    call!("Admin::identify", scene, scene.admin.identify()),
    call!("GatewaysAdmin::note", scene, scene.admin.gateways().note("a", "text")),
    call!("GatewaysAdmin::new_note", scene, scene.admin.gateways().new_note("b", "text")),
    call!("GatewaysAdmin::notes", scene, scene.admin.gateways().notes()),
    call!("GatewaysAdmin::notes_of", scene, scene.admin.gateways().notes_of(["a", "b"])),
    call!("GatewaysAdmin::delete_notes", scene, async {
        scene.admin.gateways().delete_notes(&["b".to_owned()]).await
    }),
    call!("GatewaysAdmin::count_call", scene, scene.admin.gateways().count_call("c", HOUR)),
    call!("GatewaysAdmin::take_back_call", scene, scene.admin.gateways().take_back_call("c", HOUR)),
    call!("GatewaysAdmin::tenants", scene, scene.admin.gateways().tenants()),
    call!("GatewaysAdmin::tenants_version", scene, scene.admin.gateways().tenants_version()),
    call!("GatewaysAdmin::change_tenants", scene, async {
        scene.admin.gateways().change_tenants("1", &[("a".to_owned(), None)]).await
    }),
    call!("GatewaysAdmin::beat", scene, scene.admin.gateways().beat("a", "text")),
    call!("GatewaysAdmin::forget_beats", scene, async {
        scene.admin.gateways().forget_beats(&["a".to_owned()]).await
    }),
    call!("GatewaysAdmin::new_session", scene, async {
        scene.admin.gateways().new_session("a", "text", HOUR).await
    }),
    call!("GatewaysAdmin::session", scene, scene.admin.gateways().session("a", HOUR)),
    call!("GatewaysAdmin::end_session", scene, scene.admin.gateways().end_session("a")),
    call!("GatewaysAdmin::record_action", scene, scene.admin.gateways().record_action("text", 10)),
    call!("GatewaysAdmin::actions", scene, scene.admin.gateways().actions(None, 10)),
    call!("Admin::workers", scene, scene.admin.workers(std::slice::from_ref(&scene.topic))),
    call!("ShardsAdmin::without_listener", scene, scene.admin.shards().without_listener(&[SHARD])),
    call!("Admin::namespaces", scene, scene.admin.namespaces()),
    call!("Admin::check_server", scene, scene.admin.check_server()),
    call!("NodesAdmin::check", scene, scene.admin.nodes().check()),
    call!("NodesAdmin::check_each", scene, scene.admin.nodes().check_each()),
    call!("ShardsAdmin::by_node", scene, scene.admin.shards().by_node()),
    call!("NodesAdmin::sentinels", scene, scene.admin.nodes().sentinels()),
    call!("ShardsAdmin::kept_twice", scene, scene.admin.shards().kept_twice()),
    call!("Admin::layout", scene, scene.admin.layout()),
    call!("ShardsAdmin::layouts", scene, scene.admin.shards().layouts(&[SHARD])),
    call!("Admin::init", scene, scene.admin.init()),
    call!("GatewaysAdmin::signing_key", scene, scene.admin.gateways().signing_key("a fresh one")),
    call!("Admin::seen", scene, scene.admin.seen()),
    call!("AuditAdmin::run", scene, scene.admin.audit().run(|_| {})),
    call!("AuditAdmin::repair", scene, async {
        let audit = scene.admin.audit().run(|_| {}).await.unwrap();
        scene.admin.audit().repair(audit, |_| {}).await
    }),
    call!("Sweep::next", scene, async { scene.admin.audit().sweep(1.0, true).next().await }),
    // One Redis has no other node: each of these calls is refused.
    call!("ShardsAdmin::name_all", scene, scene.admin.shards().name_all()),
    call!("ShardsAdmin::move_to", scene, async {
        scene.admin.shards().move_to(&BTreeSet::from([SHARD]), &"b".parse().unwrap(), |_| {}).await
    }),
    call!("ShardsAdmin::take_back", scene, async {
        scene.admin.shards().take_back(&BTreeSet::from([SHARD]), &"b".parse().unwrap()).await
    }),
    call!("ShardsAdmin::discard_moved", scene, scene.admin.shards().discard_moved(|_| {})),
    call!(
        "ShardsAdmin::grow",
        scene,
        scene.admin.shards().grow(ShardCount::new(2 * SHARDS).unwrap(), |_| {})
    ),
    call!("TopicAdmin::purge", scene, scene.admin.topic(&scene.topic).purge(PurgeWhat::Ready, |_| {})),
    call!("TopicAdmin::delete", scene, async {
        let empty = Topic::new("empty").unwrap();
        scene.admin.topic(&empty).delete().await
    }),
    call!("Growth::next" waits, scene, async { scene.client.growth().next().await }),
    call!("Places::changed" waits, scene, async { scene.holder.places().changed().await }),
    call!("Listener::next" waits, scene, async { scene.holder.listen(vec![SHARD]).next().await }),
];

/// `settled` has the calls of messages in hand, `worker` the call of a worker. A test that drops a call of `Isolated` loses a
/// deployment of its own. `Alarm`, `Nodes` and `Trip` are rooms of a pump, which hold nothing across an await.
const ELSEWHERE: [&str; 11] = [
    "Alarm::wait_until",
    "Consumer::next",
    "Consumer::stop",
    "Delivery::lost",
    "Isolated::drain",
    "Isolated::pending",
    "Isolated::promote_all",
    "Job::lost",
    "Nodes::changed",
    "Trip::of",
    "Worker::run",
];

fn public() -> BTreeSet<String> {
    let (mut found, mut folders) = (BTreeSet::new(), vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let mut of = String::new();
            for line in std::fs::read_to_string(path).unwrap().lines() {
                if let Some(rest) = line.strip_prefix("impl") {
                    let name = rest.trim_start_matches("<'a>").trim();
                    of = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned();
                }
                if let Some(rest) = line.strip_prefix("    pub async fn ") {
                    let name = rest.split(['(', '<']).next().unwrap_or_default();
                    found.insert(format!("{of}::{name}"));
                }
            }
        }
    }
    found
}

#[test]
fn no_call_of_the_public_api_is_missing_here() {
    let here = CALLS.iter().map(|(name, ..)| *name).chain(ELSEWHERE);
    assert_eq!(here.map(str::to_owned).collect::<BTreeSet<_>>(), public());
}

#[tokio::test]
async fn every_call_may_be_dropped_at_each_of_its_awaits() {
    let scene = Scene::new().await;
    for (name, completes, call) in CALLS {
        match completes {
            true => at_each_await(name, || call(&scene)).await,
            false => assert!(!dropped_after(1, call(&scene)).await, "{name}"),
        }
    }
    // Unsettled messages come back, and every message is accounted for.
    wait_until("the leases' end", LONG, async || {
        for shard in scene.client.shards().shards() {
            scene.owner.pump(&[(shard, None)], 500, None).await.remove(0).unwrap();
        }
        scene.admin.topic(&scene.topic).count().await.unwrap().leased == 0
    })
    .await;
    let numbers = scene.admin.topic(&scene.topic).count().await.unwrap();
    assert_eq!(numbers.accepted, numbers.accounted(), "{numbers:?}");
    let audit = scene.admin.audit().run(|_| {}).await.unwrap();
    assert!(audit.is_clean(), "{audit:?}");
    assert_eq!(scene.admin.layout().await.unwrap().shards().get(), 2 * SHARDS);
}
