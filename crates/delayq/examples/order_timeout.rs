//! Cancels orders that are not paid in time: an HTTP service that puts a timeout for each order, and a worker that
//! cancels those whose timeout was delivered.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p delayq --example order_timeout     # beside `delayq up`
//! curl -X POST 127.0.0.1:8080/orders/17
//! curl -X POST 127.0.0.1:8080/orders/17/pay
//! ```

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use delayq::{
    CancelOutcome, Client, Consumer, ConsumerOptions, Message, MessageId, Producer, ProducerOptions,
    Settings, Topic,
};
use std::error::Error;
use std::time::Duration;

/// What the handlers share.
#[derive(Clone)]
pub(crate) struct Shop {
    pub(crate) producer: Producer,
    pub(crate) timeouts: Topic,
    /// How long an order may stay unpaid.
    pub(crate) patience: Duration,
}

pub(crate) fn routes(shop: Shop) -> Router {
    Router::new().route("/orders/{id}", post(order)).route("/orders/{id}/pay", post(pay)).with_state(shop)
}

/// An order's timeout has the order's id, so an order that is sent twice has one timeout. One that was paid, and is sent
/// again while its topic remembers the cancel, is a conflict: it gets no second timeout.
async fn order(State(shop): State<Shop>, Path(id): Path<String>) -> StatusCode {
    let Ok(timeout) = Message::new(shop.timeouts.clone(), id.clone()).after(shop.patience).id(&id) else {
        return StatusCode::BAD_REQUEST;
    };
    match shop.producer.put(timeout).await {
        Ok(put) if put.outcome.is_accepted() => StatusCode::CREATED,
        Ok(_) => StatusCode::CONFLICT,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Answered *cancelled*, the timeout is never delivered. Anything else: it came first, the order is gone.
async fn pay(State(shop): State<Shop>, Path(id): Path<String>) -> StatusCode {
    let Ok(id) = MessageId::own(id) else { return StatusCode::BAD_REQUEST };
    match shop.producer.cancel(&shop.timeouts, &id.into()).await {
        Ok(CancelOutcome::Cancelled) => StatusCode::OK,
        Ok(CancelOutcome::Unknown) => StatusCode::NOT_FOUND,
        Ok(_) => StatusCode::GONE,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Hands every unpaid order to `cancel_order`. It may see one twice (a worker died), so it has to bear that.
pub(crate) async fn cancel_unpaid(mut consumer: Consumer, mut cancel_order: impl FnMut(&str)) {
    while let Some(timeout) = consumer.next().await {
        cancel_order(&String::from_utf8_lossy(timeout.payload()));
        if let Err(error) = timeout.ack().await {
            eprintln!("the timeout will come again: {error}");
        }
    }
}

#[tokio::main]
#[allow(dead_code, reason = "a test runs the parts of this example without its main")]
#[allow(clippy::disallowed_methods, reason = "the one setting of an example")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".to_owned());
    let client = Client::connect(Settings::new(url)).await?;
    let timeouts = Topic::new("order-timeouts")?;
    let consumer = Consumer::start(client.clone(), ConsumerOptions::new([timeouts.clone()]))?;
    tokio::spawn(cancel_unpaid(consumer, |order| println!("order {order} was not paid: cancelled")));

    let producer = Producer::start(client, ProducerOptions::default());
    let shop = Shop { producer, timeouts, patience: Duration::from_secs(30 * 60) };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, routes(shop)).await?;
    Ok(())
}
