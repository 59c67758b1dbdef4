//! Waiting with a limit: whatever is waited for has a name and a deadline.

use std::future::Future;
use std::time::Duration;

/// How long a probe rests between two looks; short against every limit in use, long against a look's cost.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The limit for what takes well under a second on an idle machine: only what hangs takes so long on a busy one.
pub const SHORT: Duration = Duration::from_secs(60);

/// The limit for what takes seconds on an idle machine, such as a broker's start.
pub const LONG: Duration = Duration::from_secs(90);

/// Looks again and again until `probe` answers something, and returns that.
///
/// Safe to drop at any time. It looks at least once, whatever the limit.
///
/// # Panics
/// When `limit` has passed; the message names `what`.
pub async fn wait_for<T, F, Fut>(what: &str, limit: Duration, mut probe: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let looking = async {
        loop {
            if let Some(found) = probe().await {
                return found;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    match tokio::time::timeout(limit, looking).await {
        Ok(found) => found,
        Err(_) => panic!("waited {limit:?} in vain for {what}"),
    }
}

/// Looks again and again until `holds` answers true.
///
/// # Panics
/// When `limit` has passed; the message names `what`.
pub async fn wait_until<F, Fut>(what: &str, limit: Duration, mut holds: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    wait_for(what, limit, || {
        let answer = holds();
        async { answer.await.then_some(()) }
    })
    .await;
}

/// Gives `work` at most `limit`.
///
/// # Panics
/// When `limit` has passed; the message names `what`.
pub async fn within<T>(what: &str, limit: Duration, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => panic!("{what} took longer than {limit:?}"),
    }
}
