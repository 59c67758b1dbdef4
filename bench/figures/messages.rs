//! The messages of a measurement: 200 bytes each, numbered, and named by the shape.

use crate::error::BenchError;
use crate::shape::Shape;
use delayq::protocol::NameError;
use delayq::{Message, Producer, Put, PutError, Topic, UnixMillis};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Messages {
    pub(crate) topic: Topic,
    shape: Shape,
    next: AtomicU64,
}

// === impl Messages ===

impl Messages {
    pub(crate) const fn new(topic: Topic, shape: Shape) -> Self {
        Self { topic, shape, next: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self, due: UnixMillis) -> Result<Message, NameError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.shape.name(Message::new(self.topic.clone(), body()).at(due), number)
    }

    pub(crate) async fn put(&self, producer: &Producer, due: UnixMillis) -> Result<(), BenchError> {
        accepted(producer.put(self.next(due)?).await)
    }

    pub(crate) async fn put_many(
        &self,
        producer: &Producer,
        count: usize,
        due: impl Fn() -> UnixMillis,
    ) -> Result<(), BenchError> {
        let messages = (0..count).map(|_| self.next(due())).collect::<Result<_, _>>()?;
        producer.put_many(messages).await.into_iter().try_for_each(accepted)
    }
}

fn accepted(put: Result<Put, PutError>) -> Result<(), BenchError> {
    let outcome = put?.outcome;
    if outcome.is_accepted() { Ok(()) } else { Err(BenchError::Wrong(format!("a put answered {outcome:?}"))) }
}

pub(crate) fn body() -> Vec<u8> {
    let n = fastrand::u32(10_000_000..99_999_999);
    let mut text = format!(
        "{{\"order\":\"{n}\",\"customer\":\"{}\",\"amount\":\"{}.90\",\"currency\":\"EUR\",\"event\":\"payment-timeout\",\"items\":[{{\"sku\":\"A-{}\",\"count\":2}}],\"note\":\"",
        n / 3,
        n % 1000,
        n % 7919,
    );
    while text.len() < 198 {
        text.push(char::from(b'a' + (text.len() as u8 % 26)));
    }
    text.push_str("\"}");
    text.into_bytes()
}
