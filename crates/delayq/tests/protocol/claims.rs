//! The promises of the design, sentence by sentence, as far as the model does not cover them.
//!
//! | promise | proved by |
//! | --- | --- |
//! | a message is in exactly one state, the books balance, nothing is left of finished messages | `model_test`, every step |
//! | an entry whose gen is not the header's is dropped by the script that meets it | `of_gens::a_cancelled_and_put_again_id…`, `poison` |
//! | every move takes a gen, the header repeats it, the receipt ends with it | `of_gens::every_move_gives…` |
//! | a settled lease cannot be settled twice | `of_gens::a_lease_is_settled_once…`, `races` |
//! | `delivery` always rises, `attempt` is what the maximum counts | `of_gens::the_delivery_always_rises…` |
//! | a lease ends when the pump takes it back | `of_messages::a_lease_ends_when_the_pump…` |
//! | a lost reserve answer costs one lease time and one attempt | `of_messages::a_lost_reserve_answer…` |
//! | a marker is a header, kept as long as the topic says | `of_messages::what_is_remembered…` |
//! | a late repeat is answered the outcome, or delivered, or refused | `of_messages::a_late_repeat…`, `…a_topic_that_refuses…`, `repeats` |
//! | `exists` compares the content, not the due time | `edges::another_content_under_the_same_id…` |
//! | a relative move names the time it expects | `of_messages::a_relative_move…` |
//! | a group is shifted once under a token | `of_messages::a_group_is_shifted_once…` |
//! | pause and rate act only at reserve, which answers when it may | `of_messages::pause_and_rate…`, `…a_rate_holds_back…` |
//! | a cancelled lease is not tried again | `of_messages::a_cancel_of_what_is_leased…` |
//! | ready messages expire by their time, leased ones on release | `of_messages::what_is_ready_expires…` |
//! | user text forges no key | `edges::no_id_and_no_group_forges…` |
//! | no key has a time to live; the pump reads no envelope | `commands` |
//! | a shard without its registry, or with another layout, answers no call | `of_scripts::every_script_refuses…` |
//! | the hour's edge needs no special case | `edges::a_message_is_ready_at_its_millisecond…` |
//! | two keys are declared, and a slot being moved refuses the whole script | `of_scripts::no_script_touches…`, `slots` |
//! | one clock per script, never the caller's | `of_scripts::no_script_touches…` |
//! | a repeated call changes nothing, or continues | `model_test::with_every_answer_lost…` |
//! | safe halfway: a key of another type is like a cut; poison aside, a later format stays | `way_out`, `poison`, `model_test::with_poison_about…` |
//! | no command scans the queue | `commands` |
//! | all but what accepts messages runs when the memory is full | `faults::under_oom…`, `of_scripts::all_but…` |
//! | a nearer due time is published | `compare::told`, after every step of the model |
//! | already due: straight to ready, unless held | `of_scripts::what_is_due_already…`, `…a_held_shard…` |

mod faults;
mod of_gens;
mod of_messages;
mod of_scripts;

use crate::action::{Action, Item, Reserve};
use crate::bare_shard::{BareShard, NOW, scripts_with};
use crate::snapshot::lossy;
use delayq::Topic;
use delayq::protocol::{Envelope, ReserveRequest, ShardId, Verb};
use delayq_tests::redis_server::SharedRedis;

const SHARD: ShardId = ShardId::new(0);

async fn bare(server: &SharedRedis) -> BareShard {
    let mut shard = BareShard::create(server, "c", scripts_with(&[])).await;
    shard.clock_us = Some(NOW * 1000);
    shard
}

async fn run(shard: &mut BareShard, action: &Action) -> Vec<String> {
    let answer = shard.call(action.verb(), &action.args()).await;
    answer.unwrap().iter().map(|item| lossy(item)).collect()
}

fn put(items: Vec<Item>) -> Action {
    Action::Put { topic: "t".into(), items }
}

async fn reserve(shard: &mut BareShard, most: u64, lease: Option<u64>) -> Vec<Vec<u8>> {
    let action = Action::Reserve(Reserve::from("t", most, lease));
    let answer = shard.call(Verb::Reserve, &action.args()).await.unwrap();
    answer.get(9..).unwrap_or_default().chunks(3).map(|one| one[1].clone()).collect()
}

fn request(topic: &Topic) -> ReserveRequest {
    ReserveRequest { topics: vec![topic.clone()], most: 500, max_bytes: 0, lease: None }
}

async fn stored(shard: &mut BareShard, id: &[u8]) -> Envelope {
    shard.snapshot().await.envelope(&(1, id.to_vec())).unwrap()
}
