//! A thread apart: what waits for messages crosses from no core to another on its way.

use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

/// Runs a future to its end on a thread of its own, with a runtime of its own, counted among `tasks`. Where the system
/// gives neither, it runs among the caller's tasks: later by some hundredths of a millisecond, and otherwise the same.
pub(super) fn spawn<F>(tasks: &TaskTracker, work: F)
where
    F: Future<Output = ()> + Send + 'static,
{
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
    // It waits for this, and for nothing else.
    let _ = hand_over.send(work);
}
