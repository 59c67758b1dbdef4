//! One thread for all tasks that wait for messages, so that no notification crosses cores.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

/// Runs a future to completion on one thread, counted among `tasks`. If the caller's runtime has only one thread, the
/// future runs there, and no thread has to be woken for a message. Otherwise the future runs on a separate thread with
/// a separate runtime. If the system provides no thread or runtime, the future runs among the caller's tasks, only
/// slightly later.
pub(super) fn spawn<F>(tasks: &TaskTracker, work: F)
where
    F: Future<Output = ()> + Send + 'static,
{
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        tasks.spawn(work);
        return;
    }
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        tasks.spawn(work);
        return;
    };
    let (hand_over, handed_over) = std::sync::mpsc::channel::<F>();
    let (ended, end) = oneshot::channel::<()>();
    let thread = std::thread::Builder::new().name("delayq-consumer".to_owned()).spawn(move || {
        if let Ok(work) = handed_over.recv() {
            runtime.block_on(work);
        }
        drop(ended);
    });
    if thread.is_err() {
        tasks.spawn(work);
        return;
    }
    tasks.spawn(async move { drop(end.await) });
    // The thread waits only for this.
    let _ = hand_over.send(work);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::{Thread, current};

    /// Returns the thread that runs a spawned future.
    async fn thread_of_what_is_spawned() -> Thread {
        let tasks = TaskTracker::new();
        let (tell, told) = oneshot::channel();
        spawn(&tasks, async move { drop(tell.send(current())) });
        tasks.close();
        tasks.wait().await;
        told.await.expect("it ran to its end")
    }

    #[tokio::test]
    async fn on_a_runtime_of_one_thread_it_runs_on_that() {
        assert_eq!(thread_of_what_is_spawned().await.id(), current().id());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_a_runtime_of_several_threads_it_has_one_of_its_own() {
        assert_eq!(thread_of_what_is_spawned().await.name(), Some("delayq-consumer"));
    }
}
