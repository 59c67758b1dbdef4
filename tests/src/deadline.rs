//! Waiting with a limit: every wait has a name and a deadline.

use std::future::Future;
use std::time::Duration;

/// The pause between two probes; short compared with every limit in use, long compared with a probe's cost.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The limit for what takes well under a second on an idle machine: only what hangs takes this long on a busy one.
pub const SHORT: Duration = Duration::from_secs(60);

/// The limit for what takes seconds on an idle machine, such as a broker's start.
pub const LONG: Duration = Duration::from_secs(90);

/// Repeats `probe` until it returns a value, and returns that.
///
/// Cancel safe. It probes at least once, whatever the limit.
///
/// # Panics
/// If `limit` has passed; the message names `what`.
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

/// Repeats `holds` until it returns true.
///
/// # Panics
/// If `limit` has passed; the message names `what`.
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

/// Awaits `work` for at most `limit`.
///
/// # Panics
/// If `limit` has passed; the message names `what`.
pub async fn within<T>(what: &str, limit: Duration, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => panic!("{what} took longer than {limit:?}"),
    }
}
