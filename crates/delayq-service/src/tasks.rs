//! The tasks of a process: each has a name, none may end before shutdown, and all drain under one deadline.
//!
//! ```text
//! spawned ── runs until shutdown ──► returns Ok ─► drained
//!    │                         └───► returns Err, panics ─► drained, with a fault
//!    └── ends before: returns, fails, panics ─► the process ends, naming the task
//! ```

use crate::codes::TASK_ENDED;
use crate::fault::Fault;
use crate::shutdown::Shutdown;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// Starts tasks and tracks running tasks; clones share the state.
#[derive(Clone, Debug)]
pub struct Tasks {
    shutdown: Shutdown,
    running: Arc<RunningTasks>,
    ended: mpsc::UnboundedSender<EndedTask>,
}

/// Watches and drains the tasks.
#[derive(Debug)]
pub struct Supervisor {
    shutdown: Shutdown,
    running: Arc<RunningTasks>,
    ended: mpsc::UnboundedReceiver<EndedTask>,
}

/// The result of a drain.
#[derive(Debug)]
pub struct Drained {
    /// Names of the tasks still running at the deadline; empty after a complete drain.
    pub left_running: Vec<String>,
    /// Faults of tasks that ended while draining, or before.
    pub faults: Vec<Fault>,
}

#[derive(Debug, Default)]
struct RunningTasks {
    names: Mutex<Names>,
    fewer: Notify,
}

#[derive(Debug, Default)]
struct Names {
    next: u64,
    by_number: BTreeMap<u64, String>,
}

#[derive(Debug)]
struct EndedTask {
    name: String,
    how: How,
}

#[derive(Debug)]
enum How {
    Returned,
    Failed(Fault),
    Panicked,
}

/// Reports the end of its task when dropped, however the task ended.
struct TaskEnd {
    number: u64,
    how: Option<How>,
    tasks: Tasks,
}

// === impl Tasks ===

impl Tasks {
    /// Starts without tasks. The supervisor sees each end.
    #[must_use]
    pub fn new(shutdown: Shutdown) -> (Self, Supervisor) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let running = Arc::new(RunningTasks::default());
        let tasks = Self { shutdown: shutdown.clone(), running: running.clone(), ended: sender };
        (tasks, Supervisor { shutdown, running, ended: receiver })
    }

    /// The shutdown that stops the tasks.
    #[must_use]
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Starts a task that runs until shutdown. An earlier end of the task ends the process.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn spawn<F>(&self, name: impl Into<String>, future: F)
    where
        F: Future<Output = Result<(), Fault>> + Send + 'static,
    {
        // Counted before the start, so that a drain that begins now waits for the task.
        let mut watch = TaskEnd { number: self.running.add(name.into()), how: None, tasks: self.clone() };
        tokio::spawn(async move {
            // A method call moves the whole `watch` into the task, which drops it there.
            watch.ended(future.await);
        });
    }

    /// The names of the running tasks, in start order.
    #[must_use]
    pub fn running(&self) -> Vec<String> {
        self.running.names()
    }
}

// === impl Supervisor ===

impl Supervisor {
    /// Waits until shutdown. Cancel safe.
    ///
    /// # Errors
    /// A task ended before: its own fault, or [`TASK_ENDED`] with its name.
    pub async fn watch(&mut self) -> Result<(), Fault> {
        tokio::select! {
            () = self.shutdown.requested() => Ok(()),
            ended = self.ended.recv() => match ended {
                // A task that ends at shutdown may report before this loop sees the request.
                Some(ended) if self.shutdown.is_requested() => ended.while_draining().map_or(Ok(()), Err),
                Some(ended) => Err(ended.before_shutdown()),
                None => Err(Fault::new(&TASK_ENDED, "every task has ended")),
            },
        }
    }

    /// Asks all tasks to stop and waits for their ends, at most until the deadline.
    pub async fn drain(mut self, deadline: Duration) -> Drained {
        self.shutdown.request();
        let in_time = tokio::time::timeout(deadline, self.running.none_left()).await.is_ok();
        let left_running = if in_time { Vec::new() } else { self.running.names() };
        let mut faults = Vec::new();
        while let Ok(ended) = self.ended.try_recv() {
            faults.extend(ended.while_draining());
        }
        Drained { left_running, faults }
    }
}

// === impl RunningTasks ===

impl RunningTasks {
    fn add(&self, name: String) -> u64 {
        let mut names = self.lock();
        names.next += 1;
        let number = names.next;
        names.by_number.insert(number, name);
        number
    }

    fn names(&self) -> Vec<String> {
        self.lock().by_number.values().cloned().collect()
    }

    async fn none_left(&self) {
        loop {
            let fewer = self.fewer.notified();
            if self.lock().by_number.is_empty() {
                return;
            }
            fewer.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl EndedTask ===

impl EndedTask {
    fn before_shutdown(self) -> Fault {
        let name = self.name;
        match self.how {
            How::Returned => Fault::new(&TASK_ENDED, format!("the task `{name}` returned")),
            How::Panicked => Fault::new(&TASK_ENDED, format!("the task `{name}` panicked")),
            How::Failed(fault) => {
                Fault::new(fault.code(), format!("the task `{name}` failed")).because(fault)
            }
        }
    }

    fn while_draining(self) -> Option<Fault> {
        match self.how {
            How::Returned => None,
            How::Failed(_) | How::Panicked => Some(self.before_shutdown()),
        }
    }
}

// === impl TaskEnd ===

impl TaskEnd {
    fn ended(&mut self, result: Result<(), Fault>) {
        self.how = Some(result.map_or_else(How::Failed, |()| How::Returned));
    }
}

impl Drop for TaskEnd {
    fn drop(&mut self) {
        let running = &self.tasks.running;
        let name = running.lock().by_number.get(&self.number).cloned().unwrap_or_default();
        // Without a recorded end, the future panicked, or the runtime was dropped with nothing listening.
        let how = self.how.take().unwrap_or(How::Panicked);
        // Reports the end before removing the name: once no names are left, every end was reported.
        let _ = self.tasks.ended.send(EndedTask { name, how });
        running.lock().by_number.remove(&self.number);
        running.fewer.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn draining_nothing_ends_at_once() {
        let (_tasks, supervisor) = Tasks::new(Shutdown::new());
        let drained = supervisor.drain(Duration::ZERO).await;
        assert!(drained.left_running.is_empty() && drained.faults.is_empty());
    }

    #[tokio::test]
    async fn a_drain_waits_for_what_a_task_starts_while_draining() {
        let (tasks, mut supervisor) = Tasks::new(Shutdown::new());
        let (shutdown, late) = (tasks.shutdown().clone(), tasks.clone());
        tasks.spawn("first", async move {
            shutdown.requested().await;
            late.spawn("second", async { Err(Fault::new(&TASK_ENDED, "was late")) });
            Ok(())
        });
        tasks.shutdown().request();
        assert!(supervisor.watch().await.is_ok());
        let drained = supervisor.drain(SOON).await;
        assert!(drained.left_running.is_empty());
        let [fault] = drained.faults.as_slice() else { panic!("{drained:?}") };
        assert_eq!(fault.to_string(), "DQ-P002: the task `second` failed: was late");
    }

    #[tokio::test]
    async fn an_end_before_shutdown_is_reported_with_its_name() {
        let (tasks, mut supervisor) = Tasks::new(Shutdown::new());
        tasks.spawn("heart", async { Ok(()) });
        let fault = supervisor.watch().await.unwrap_err();
        assert_eq!(fault.to_string(), "DQ-P002: the task `heart` returned");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_task_that_ends_at_shutdown_is_no_fault_whichever_is_heard_of_first() {
        for _ in 0..5000 {
            let (tasks, mut supervisor) = Tasks::new(Shutdown::new());
            let shutdown = tasks.shutdown().clone();
            tasks.spawn("prompt", async move {
                shutdown.requested().await;
                Ok(())
            });
            let watching = tokio::spawn(async move { supervisor.watch().await });
            tokio::task::yield_now().await;
            tasks.shutdown().request();
            watching.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_passed_deadline_names_all_that_runs_in_the_order_of_their_start() {
        let (tasks, supervisor) = Tasks::new(Shutdown::new());
        for name in ["one", "two"] {
            tasks.spawn(name, std::future::pending());
        }
        assert_eq!(supervisor.drain(Duration::from_millis(1)).await.left_running, ["one", "two"]);
    }
}
