//! Acting on messages that are still as they were seen, and selecting them.

use delayq::admin::{Acted, Action, Numbers, SelectCursor, SelectState, Selection, Step, Tag, TimeRange};
use delayq::protocol::{Envelope, Holder, RecordId, ReserveRequest, ShardId};
use delayq::{Due, Group, Message, MessageId, Reschedule, Settled, Shift, State, Target, Topic, UnixMillis};
use delayq_tests::deployment::Deployment;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const STATES: [&str; 4] = ["dead", "leased", "ready", "delayed"];

fn topic() -> Topic {
    Topic::new("t").unwrap()
}

fn message(id: &str) -> Message {
    Message::new(topic(), "x").id(id).unwrap()
}

fn target(id: &str) -> Target {
    MessageId::own(id).unwrap().into()
}

/// A message in each state, each named by its state.
async fn in_every_state(scene: &Deployment) {
    scene.put([message("dead"), message("leased")]).await;
    let request = ReserveRequest { topics: vec![topic()], most: 2, max_bytes: 0, lease: Some(HOUR) };
    let holder = Holder::new(scene.client.clone());
    let report = holder.reserve(&[(ShardId::new(0), request)]).await.remove(0).unwrap();
    let buried = (report.messages[0].receipt.clone(), "broken".to_owned());
    assert_eq!(holder.bury(&[buried]).await.remove(0).unwrap(), Settled::Buried);
    scene.put([message("ready"), message("delayed").after(HOUR)]).await;
}

async fn stored(scene: &Deployment, id: &str) -> Envelope {
    scene.admin.topic(&topic()).get(&target(id)).await.unwrap().unwrap().envelope.unwrap()
}

async fn act(scene: &Deployment, id: &str, action: &Action) -> Acted {
    let tag = Tag::of(&stored(scene, id).await);
    scene.admin.topic(&topic()).act_on(&target(id), tag, action).await.unwrap()
}

async fn is_sound(scene: &Deployment) {
    let audit = scene.admin.audit().run(|_| {}).await.unwrap();
    assert!(audit.findings.is_empty() && audit.drifts.is_empty(), "{audit:?}");
}

fn selection(state: SelectState) -> Selection {
    Selection { topics: vec![topic()], group: None, state, range: TimeRange::ALL }
}

/// The selected ids, and those that changed after the cut.
async fn selected(scene: &Deployment, selection: &Selection, cut: &delayq::admin::Cut) -> [Vec<String>; 2] {
    let (mut found, mut next) = ([vec![], vec![]], Some(SelectCursor::default()));
    while let Some(cursor) = next {
        let page = scene.admin.operations().select(selection, cut, &cursor, 2).await.unwrap();
        found[0].extend(page.messages.iter().map(|listed| listed.id.to_string()));
        found[1].extend(page.changed.iter().map(|listed| listed.id.to_string()));
        next = page.next.map(|next| next.to_string().parse().unwrap());
    }
    found.iter_mut().for_each(|ids| ids.sort());
    found
}

#[tokio::test]
async fn each_action_moves_messages_of_its_states_and_no_other() {
    let far = UnixMillis::new(4_000_000_000_000);
    let moved = |ready| Acted::Moved { due: far, ready };
    let actions: [(Action, [Option<Acted>; 4]); 6] = [
        (
            Action::Cancel,
            [
                Some(Acted::Kept(State::Dead)),
                Some(Acted::Leased),
                Some(Acted::Cancelled),
                Some(Acted::Cancelled),
            ],
        ),
        (
            Action::Bury("of no use".to_owned()),
            [
                Some(Acted::Kept(State::Dead)),
                Some(Acted::Kept(State::Leased)),
                Some(Acted::Buried),
                Some(Acted::Buried),
            ],
        ),
        (
            Action::Reschedule(Due::At(far)),
            [
                Some(Acted::Kept(State::Dead)),
                Some(Acted::Kept(State::Leased)),
                Some(moved(false)),
                Some(moved(false)),
            ],
        ),
        (
            Action::Shift(Shift::Later(HOUR)),
            [Some(Acted::Kept(State::Dead)), Some(Acted::Kept(State::Leased)), None, None],
        ),
        (Action::Promote, [Some(Acted::Kept(State::Dead)), Some(Acted::Kept(State::Leased)), None, None]),
        (
            Action::Replay(Duration::ZERO),
            [
                None,
                Some(Acted::Kept(State::Leased)),
                Some(Acted::Kept(State::Ready)),
                Some(Acted::Kept(State::Delayed)),
            ],
        ),
    ];
    for (action, expected) in actions {
        let scene = Deployment::new(1).await;
        in_every_state(&scene).await;
        for (id, expected) in STATES.into_iter().zip(expected) {
            let before = stored(&scene, id).await;
            let acted = act(&scene, id, &action).await;
            match expected {
                Some(expected) => assert_eq!(acted, expected, "{action:?} {id}"),
                None => assert!(matches!(acted, Acted::Moved { .. }), "{action:?} {id}: {acted:?}"),
            }
            if matches!(acted, Acted::Kept(_)) {
                assert_eq!(stored(&scene, id).await, before, "{action:?} {id}");
            }
        }
        if let Action::Shift(_) = action {
            let due = stored(&scene, "delayed").await.due.get();
            let now = scene.now().await.get();
            assert!((now + 7_100_000..=now + 7_200_000).contains(&due), "two hours from the put: {due}");
        }
        if let Action::Bury(_) = action {
            let buried = stored(&scene, "delayed").await;
            assert_eq!((buried.state, buried.reason.as_deref()), (State::Dead, Some("of no use")));
        }
        is_sound(&scene).await;
    }
}

#[tokio::test]
async fn a_message_that_moved_since_it_was_seen_is_not_touched() {
    let scene = Deployment::new(1).await;
    in_every_state(&scene).await;
    let seen = Tag::of(&stored(&scene, "delayed").await);
    let later = Reschedule::To(Due::After(2 * HOUR));
    scene.producer.reschedule(&topic(), &target("delayed"), later).await.unwrap();
    let now = stored(&scene, "delayed").await;
    for action in
        [Action::Cancel, Action::Promote, Action::Bury(String::new()), Action::Shift(Shift::Later(HOUR))]
    {
        let acted = scene.admin.topic(&topic()).act_on(&target("delayed"), seen, &action).await.unwrap();
        assert_eq!(acted, Acted::Changed(State::Delayed, Tag::of(&now)), "{action:?}");
    }
    assert_eq!(stored(&scene, "delayed").await, now);
    let unknown = scene.admin.topic(&topic()).act_on(&target("nobody"), seen, &Action::Cancel).await.unwrap();
    assert_eq!(unknown, Acted::Unknown);
    let tag = Tag::of(&now);
    for _ in 0..2 {
        let acted =
            scene.admin.topic(&topic()).act_on(&target("delayed"), tag, &Action::Cancel).await.unwrap();
        assert_eq!(acted, Acted::Cancelled, "a repeat has the same answer");
    }
    is_sound(&scene).await;
}

#[tokio::test]
async fn a_pending_message_is_buried_whatever_its_tag_is() {
    let scene = Deployment::new(1).await;
    in_every_state(&scene).await;
    for (id, expected) in STATES.into_iter().zip([
        Acted::Kept(State::Dead),
        Acted::Kept(State::Leased),
        Acted::Buried,
        Acted::Buried,
    ]) {
        let buried = scene.admin.topic(&topic()).bury(&target(id), "of no use").await.unwrap();
        assert_eq!(buried, expected, "{id}");
    }
    assert_eq!(stored(&scene, "ready").await.reason.as_deref(), Some("of no use"));
    assert_eq!(stored(&scene, "dead").await.reason.as_deref(), Some("broken"), "the first reason stays");
    let unknown = scene.admin.topic(&topic()).bury(&target("nobody"), "of no use").await.unwrap();
    assert_eq!(unknown, Acted::Unknown);
    scene.put([message("gone").after(HOUR)]).await;
    scene.producer.cancel(&topic(), &target("gone")).await.unwrap();
    let gone = scene.admin.topic(&topic()).bury(&target("gone"), "of no use").await.unwrap();
    assert!(matches!(gone, Acted::Finished(State::Cancelled, _)), "{gone:?}");
    is_sound(&scene).await;
}

#[tokio::test]
async fn a_call_with_a_record_is_carried_out_once_until_its_outcomes_are_forgotten() {
    let scene = Deployment::new(1).await;
    scene.put(["a", "b"].map(|id| message(id).after(HOUR))).await;
    let topic = topic();
    let step = Step { shard: ShardId::new(0), topic: &topic, record: RecordId::of([b"step".as_slice()]) };
    assert_eq!(scene.admin.operations().acted(step).await.unwrap(), []);
    let tag = async |id: &str| (target(id), Tag::of(&stored(&scene, id).await));
    let (a, b) = (tag("a").await, tag("b").await);
    let shift = Action::Shift(Shift::Later(HOUR));
    let outcomes =
        scene.admin.operations().act(step, &shift, std::slice::from_ref(&a)).await.unwrap().unwrap();
    assert!(matches!(outcomes[..], [Acted::Moved { ready: false, .. }]), "{outcomes:?}");
    assert_eq!(
        scene.admin.operations().act(step, &shift, std::slice::from_ref(&b)).await.unwrap(),
        None,
        "the record was carried out"
    );
    assert_eq!(tag("b").await.1, b.1);
    assert_eq!(scene.admin.operations().acted(step).await.unwrap(), outcomes);
    scene.admin.operations().forget_acted(step).await.unwrap();
    assert_eq!(scene.admin.operations().acted(step).await.unwrap(), []);
    assert!(scene.admin.operations().act(step, &shift, &[b]).await.unwrap().is_some());
    is_sound(&scene).await;
}

#[tokio::test]
async fn a_selection_has_every_message_of_its_state_at_the_cut_and_none_that_came_or_moved_later() {
    let scene = Deployment::new(3).await;
    let ids: Vec<String> = (0..9).map(|n| format!("m{n}")).collect();
    scene.put(ids.iter().map(|id| message(id).after(HOUR))).await;
    scene.put(["r0", "r1"].map(message)).await;
    let pending = selection(SelectState::Pending);
    assert_eq!(scene.admin.operations().count(&pending).await.unwrap(), Some(11));
    let cut = scene.admin.operations().cut(&pending).await.unwrap().to_string().parse().unwrap();
    scene.put([message("new").after(HOUR)]).await;
    let later = Reschedule::To(Due::After(2 * HOUR));
    scene.producer.reschedule(&topic(), &target("m3"), later).await.unwrap();
    let [found, changed] = selected(&scene, &pending, &cut).await;
    let expected: Vec<&str> = ["m0", "m1", "m2", "m4", "m5", "m6", "m7", "m8", "r0", "r1"].to_vec();
    assert_eq!(
        (found, changed),
        (expected.into_iter().map(str::to_owned).collect(), vec!["m3".to_owned(), "new".to_owned()])
    );
    assert_eq!(selected(&scene, &selection(SelectState::Ready), &cut).await[0], ["r0", "r1"]);
    assert_eq!(selected(&scene, &selection(SelectState::Delayed), &cut).await[0].len(), 8);
    assert_eq!(selected(&scene, &selection(SelectState::Dead), &cut).await[0].len(), 0);
}

#[tokio::test]
async fn a_group_is_selected_over_topics_within_a_range_of_due_times() {
    let scene = Deployment::new(3).await;
    let group = Group::new("g").unwrap();
    let other = Topic::new("other").unwrap();
    let grouped = |topic: &Topic, hours: u32| {
        Message::new(topic.clone(), "x").after(HOUR * hours).with_group(group.clone())
    };
    scene.put((1..6).map(|hours| grouped(&topic(), hours))).await;
    scene.put((1..6).map(|hours| grouped(&other, hours))).await;
    scene.put([message("alone").after(HOUR)]).await;
    let now = scene.now().await.get();
    let range = TimeRange { from: UnixMillis::new(now + 5_000_000), to: UnixMillis::new(now + 12_000_000) };
    let of_group = Selection { topics: vec![], group: Some(group), state: SelectState::Pending, range };
    let cut = scene.admin.operations().cut(&of_group).await.unwrap();
    assert_eq!(selected(&scene, &of_group, &cut).await[0].len(), 4, "two and three hours, in two topics");
    let of_topic = Selection { topics: vec![other], ..of_group };
    assert_eq!(selected(&scene, &of_topic, &cut).await[0].len(), 2);
    let Numbers { delayed, .. } = scene.admin.topic(&topic()).count().await.unwrap();
    assert_eq!(delayed, 6);
}

#[tokio::test]
async fn a_note_of_an_operation_is_replaced_only_as_it_was_read() {
    let scene = Deployment::new(1).await;
    let swap = async |expected: u64, text: &str| {
        let note = scene.admin.operations().swap_note("one", expected, text).await.unwrap();
        (note.swapped, note.version, note.text)
    };
    assert_eq!(swap(0, "first").await, (true, 1, "first".to_owned()));
    assert_eq!(swap(0, "again").await, (false, 1, "first".to_owned()));
    assert_eq!(swap(1, "second 2").await, (true, 2, "second 2".to_owned()));
    assert_eq!(scene.admin.operations().note("one").await.unwrap(), Some((2, "second 2".to_owned())));
    assert_eq!(swap(1, "").await, (false, 2, "second 2".to_owned()));
    assert_eq!(swap(2, "").await, (true, 0, String::new()));
    assert_eq!(scene.admin.operations().notes().await.unwrap().len(), 0);
    is_sound(&scene).await;
}
