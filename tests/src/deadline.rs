//! Waiting with a limit: every wait has a name and a deadline.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// Shortest and longest pause between two probes. In between, the pause is a twentieth of the time waited so far: an end is seen
/// at most so much later, and many tests that wait leave the processors to those that work.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(50)];

/// Limit for operations that take well under a second on an idle machine: on a busy one, only a hang takes this long.
pub const SHORT: Duration = Duration::from_secs(60);

/// Limit for operations that take seconds on an idle machine, such as a broker's start.
pub const LONG: Duration = Duration::from_secs(90);

/// Repeats `probe` until it returns a value, and returns that. After `limit`, panics with `what`.
///
/// Cancel safe. Probes at least once, whatever the limit.
pub async fn wait_for<T, F, Fut>(what: &str, limit: Duration, mut probe: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    wait_for_ok(what, limit, || {
        let answer = probe();
        async { answer.await.ok_or("") }
    })
    .await
}

/// As [`wait_for`], with a probe that says what it found instead; the panic has what it found last.
pub async fn wait_for_ok<T, E, F, Fut>(what: &str, limit: Duration, mut probe: F) -> T
where
    E: Display,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let mut last = None;
    let looking = async {
        let begun = Instant::now();
        loop {
            match probe().await {
                Ok(found) => return found,
                Err(instead) => last = Some(instead),
            }
            tokio::time::sleep((begun.elapsed() / 20).clamp(PAUSES[0], PAUSES[1])).await;
        }
    };
    match tokio::time::timeout(limit, looking).await {
        Ok(found) => found,
        Err(_) => match last.map(|last| last.to_string()).filter(|last| !last.is_empty()) {
            Some(last) => panic!("waited {limit:?} in vain for {what}, but found: {last}"),
            None => panic!("waited {limit:?} in vain for {what}"),
        },
    }
}

/// Repeats `holds` until true. After `limit`, panics with `what`.
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

/// Awaits `work` for at most `limit`, then panics with `what`.
pub async fn within<T>(what: &str, limit: Duration, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => panic!("{what} took longer than {limit:?}"),
    }
}
