//! Futures that are dropped at one of their awaits.

use std::future::poll_fn;
use std::task::Poll;

const MOST_POLLS: usize = 200;

/// Polls only when woken; true if the future had completed.
pub(crate) async fn dropped_after(polls: usize, future: impl Future) -> bool {
    let (mut future, mut left) = (Box::pin(future), polls);
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Drops the call before its first poll, at its first await, its second, and so on until the call completes.
pub(crate) async fn at_each_await<F: Future>(what: &str, call: impl Fn() -> F) {
    for polls in 0..MOST_POLLS {
        if dropped_after(polls, call()).await {
            return;
        }
    }
    panic!("{what} has not completed after {MOST_POLLS} polls");
}
