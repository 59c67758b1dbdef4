//! Runs the handler of one message, and settles the message.

use super::done::Done;
use super::failure::{Failure, Then};
use super::job::Job;
use crate::consumer::{Delivery, Held, answer};
use crate::error::Error;
use delayq_core::id::{MessageId, Topic};
use delayq_core::verbs::settle::Settled;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

pub(super) type Handler = Arc<dyn Fn(Job) -> BoxFuture<'static, Result<Done, Failure>> + Send + Sync>;

struct About {
    topic: Topic,
    id: MessageId,
    attempt: u16,
}

/// If this future is dropped before the handler has finished, the message is given back, and the attempt does
/// not count.
pub(super) async fn handle(handler: Handler, delivery: Delivery) {
    let (received, held) = delivery.split();
    let about = About { topic: received.topic.clone(), id: received.id.clone(), attempt: received.attempt() };
    let group = received.group().cloned();
    let job = Job { received, lost: held.lost.clone() };
    match run(handler, job).await {
        Ok(Done { next: None }) => about.acked(answer(held.ack()).await),
        Ok(Done { next: Some(next) }) => match held.ack_and_put(&about.topic, &about.id, group, next) {
            Ok(answered) => about.acked(answer(answered).await),
            Err((error, released)) => about.failed(&error.to_string(), answer(released).await),
        },
        Err(failure) => {
            let settled = answer(settle(held, &failure)).await;
            about.failed(&failure.reason, settled);
        }
    }
}

/// A panic is a failed attempt.
async fn run(handler: Handler, job: Job) -> Result<Done, Failure> {
    let handled = AssertUnwindSafe(async move { handler(job).await }).catch_unwind().await;
    handled.unwrap_or_else(|panic| Err(panicked(&*panic)))
}

pub(super) fn panicked(panic: &(dyn Any + Send)) -> Failure {
    Failure::retry(format!("panicked: {}", said(panic)))
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}

fn settle(held: Held, failure: &Failure) -> crate::consumer::AnswerReceiver {
    match failure.then {
        Then::Retry(delay) => held.release(delay, &failure.reason),
        Then::Bury => held.bury(&failure.reason),
    }
}

// === impl About ===

impl About {
    fn acked(&self, settled: Result<Settled, Error>) {
        let Self { topic, id, attempt } = self;
        match settled {
            Ok(Settled::Delivered | Settled::Cancelled) => {}
            Ok(Settled::LeaseLost) => {
                tracing::warn!(%topic, %id, attempt, "handled after the lease was lost: the message may be \
                                                      handled again");
            }
            Ok(other) => {
                tracing::warn!(%topic, %id, attempt, answer = ?other, "cannot ack a handled message");
            }
            Err(error) => self.unsettled(&error),
        }
    }

    fn failed(&self, reason: &str, settled: Result<Settled, Error>) {
        let Self { topic, id, attempt } = self;
        match settled {
            Ok(Settled::Buried) => {
                tracing::error!(%topic, %id, attempt, reason, "buried: last attempt failed, or no attempt \
                                                               can succeed");
            }
            Ok(Settled::Delayed(at)) => {
                tracing::warn!(%topic, %id, attempt, reason, %at, "attempt failed: retrying later");
            }
            Ok(Settled::Ready) => {
                tracing::warn!(%topic, %id, attempt, reason, "attempt failed: retrying at once");
            }
            Ok(other) => tracing::warn!(%topic, %id, attempt, reason, answer = ?other, "an attempt failed"),
            Err(error) => {
                tracing::warn!(%topic, %id, attempt, reason, "an attempt failed");
                self.unsettled(&error);
            }
        }
    }

    fn unsettled(&self, error: &Error) {
        let Self { topic, id, attempt } = self;
        tracing::warn!(%topic, %id, attempt, %error, "a message was not settled: it is delivered again when \
                                                      its lease expires");
    }
}
