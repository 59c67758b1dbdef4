//! A thread with a runtime of its own: punctual work does not wait behind other tasks.

use delayq_service::codes::SYSTEM;
use delayq_service::{Fault, Shutdown};
use std::thread;
use tokio::sync::oneshot;

/// Runs a future to its end on a thread of its own, with a runtime whose tasks all share that thread, so that related
/// work never crosses between cores. When this call is dropped, the future stops at its next wait.
///
/// # Errors
/// The system gives no thread or no runtime.
///
/// # Panics
/// When the future panics: the panic continues here.
pub(crate) async fn run<T, F>(name: &str, work: impl FnOnce() -> F + Send + 'static) -> Result<T, Fault>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Fault::new(&SYSTEM, "cannot start a runtime").because(error))?;
    let (ended, end) = oneshot::channel();
    let stop = Stop(Shutdown::new());
    let stopped = stop.0.clone();
    let body = move || {
        let output = runtime.block_on(stopped.or(async { work().await }));
        // After a stop, nobody receives the output.
        let _ = ended.send(output);
    };
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(|error| Fault::new(&SYSTEM, "cannot start a thread").because(error))?;
    let output = end.await.ok().flatten();
    Ok(output.expect("a detached task ends early only by a panic"))
}

struct Stop(Shutdown);

// === impl Stop ===

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.request();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn it_runs_on_another_thread_and_answers() {
        let here = thread::current().id();
        let there = run("apart", || async { thread::current().id() }).await.unwrap();
        assert_ne!(here, there);
    }

    #[tokio::test]
    async fn dropped_it_stops_where_it_waits() {
        let (kept, dropped) = oneshot::channel::<()>();
        let waiting = run("apart", || async move {
            let _kept = kept;
            std::future::pending::<()>().await;
        });
        assert!(tokio::time::timeout(Duration::from_millis(10), waiting).await.is_err());
        assert!(dropped.await.is_err(), "what it held is dropped");
    }
}
