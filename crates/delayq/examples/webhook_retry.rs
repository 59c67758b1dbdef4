//! Calls webhooks, and calls again what failed: later and later, then aside among the dead letters, where somebody
//! looks and gives it another life.
//!
//! `REDIS_URL=redis://127.0.0.1:6379 cargo run -p delayq --example webhook_retry`, beside `delayq up`.

use delayq::admin::{ListState, TimeRange};
use delayq::{
    Admin, Backoff, Client, Consumer, ConsumerOptions, Message, Producer, ProducerOptions, Settings, Topic,
};
use std::error::Error;
use std::time::Duration;

/// How a call went.
pub(crate) enum Answer {
    Delivered,
    /// Worth another try.
    Failed(String),
    /// Never will be: no try is worth it.
    Refused(String),
}

/// A call that is to be made at once, and again after a rest: at most `attempts` times in all.
pub(crate) fn call(topic: &Topic, body: &str, attempts: u16, first_rest: Duration) -> Message {
    Message::new(topic.clone(), body)
        .max_attempts(attempts)
        .backoff(Backoff::Exponential { first: first_rest, longest: Duration::from_secs(600) })
}

/// Makes the calls with `send`. After the last attempt that failed, a release buries the call with its reason.
pub(crate) async fn make_calls(mut consumer: Consumer, mut send: impl FnMut(&[u8], u16) -> Answer) {
    while let Some(call) = consumer.next().await {
        let settled = match send(call.payload(), call.attempt()) {
            Answer::Delivered => call.ack().await,
            Answer::Failed(why) => call.release(None, &why).await,
            Answer::Refused(why) => call.bury(&why).await,
        };
        if let Err(error) = settled {
            eprintln!("the call will be made again: {error}");
        }
    }
}

/// The calls that nobody answered, and why, the newest first.
pub(crate) async fn given_up(admin: &Admin, topic: &Topic) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let dead = ListState::Dead { newest_first: true };
    let listed = admin.topic(topic).list(dead, TimeRange::ALL, 100).await?;
    let shown = listed.into_iter().filter_map(|dead| dead.envelope.ok()).map(|envelope| {
        (String::from_utf8_lossy(&envelope.payload).into_owned(), envelope.reason.unwrap_or_default())
    });
    Ok(shown.collect())
}

#[tokio::main]
#[allow(dead_code, reason = "a test runs the parts of this example without its main")]
#[allow(clippy::disallowed_methods, reason = "the one setting of an example")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".to_owned());
    let client = Client::connect(Settings::new(url)).await?;
    let webhooks = Topic::new("webhooks")?;
    let producer = Producer::start(client.clone(), ProducerOptions::default());
    let consumer = Consumer::start(client.clone(), ConsumerOptions::new([webhooks.clone()]))?;
    let worker = tokio::spawn(make_calls(consumer, |body, attempt| {
        println!("attempt {attempt}: {}", String::from_utf8_lossy(body));
        match (body, attempt) {
            (b"paid", 1) => Answer::Failed("503 Service Unavailable".to_owned()),
            (b"paid", _) => Answer::Delivered,
            (b"shipped", _) => Answer::Failed("connection refused".to_owned()),
            _ => Answer::Refused("410 Gone".to_owned()),
        }
    }));
    for event in ["paid", "shipped", "cancelled"] {
        producer.put(call(&webhooks, event, 3, Duration::from_secs(2))).await?;
    }

    tokio::signal::ctrl_c().await?;
    worker.abort();
    for (body, why) in given_up(&Admin::new(client), &webhooks).await? {
        println!("given up: {body}: {why}");
    }
    Ok(())
}
