//! Calls in flight, kept while a stream waits for something else.

use std::future::Future;
use std::pin::Pin;

pub(super) type StreamCall<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Waits for the end of a call in flight; without a call, forever. Cancel safe.
pub(super) async fn ended<T>(pending: &mut Option<StreamCall<T>>) -> T {
    let Some(call) = pending else { return std::future::pending().await };
    let value = call.await;
    *pending = None;
    value
}
