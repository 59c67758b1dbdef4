//! The queues of a producer: one for puts that wait for nothing, and one for each durability that topics ask for. So replicas
//! that do not confirm hold up only those who wait for them.

use super::room::Room;
use super::sending::{Sender, Waiting};
use crate::gather::Gathering;
use crate::scatter::MAX_IDS_A_PIPELINE;
use delayq_core::durability::Waits;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// Calls that may wait to be gathered before callers are held back.
const QUEUE: usize = 4096;

/// The queues of a producer, which end with its last clone.
pub(super) struct Lanes {
    sender: Arc<Sender>,
    limits: Limits,
    lanes: Mutex<BTreeMap<Waits, Lane>>,
}

/// A queue, and how much may wait in it. Cheap to clone.
#[derive(Clone)]
pub(super) struct Lane {
    pub(super) queue: mpsc::Sender<Vec<Waiting>>,
    pub(super) room: Room,
}

/// The limits of each queue.
pub(super) struct Limits {
    pub(super) linger: Duration,
    pub(super) in_flight: usize,
    pub(super) pipeline_bytes: usize,
    pub(super) queue_bytes: usize,
}

// === impl Lanes ===

impl Lanes {
    pub(super) fn new(sender: Sender, limits: Limits) -> Self {
        let lanes = Self { sender: Arc::new(sender), limits, lanes: Mutex::default() };
        lanes.of(&Waits::NOTHING);
        lanes
    }

    /// The queue of puts that wait for this. The first put that does starts it.
    pub(super) fn of(&self, waits: &Waits) -> Lane {
        let mut lanes = self.lanes.lock().expect("nothing panics while it holds the lanes");
        if let Some(lane) = lanes.get(waits) {
            return lane.clone();
        }
        let lane = self.start(waits.clone());
        lanes.insert(waits.clone(), lane.clone());
        lane
    }

    fn start(&self, waits: Waits) -> Lane {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let gathering = Gathering {
            max_items: MAX_IDS_A_PIPELINE,
            max_bytes: self.limits.pipeline_bytes,
            in_flight: self.limits.in_flight,
            linger: self.limits.linger,
        };
        let sender = Arc::clone(&self.sender);
        tokio::spawn(async move { gathering.run(waiting, |gathered| sender.send(gathered, &waits)).await });
        Lane { queue, room: Room::new(self.limits.queue_bytes as u32) }
    }
}
