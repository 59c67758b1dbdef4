//! All measurements in their order, several times over.

use crate::{
    bench::{Bench, BenchError},
    figures::{Figure, median},
    fleet::Fleet,
    lateness::LatenessNames,
};

const STEADY: LatenessNames = LatenessNames {
    ready_p50: "1,000/s, due -> ready, p50",
    ready_p99: "1,000/s, due -> ready, p99",
    ready_max: "1,000/s, due -> ready, max",
    worker_p50: "1,000/s, due -> worker, p50",
    worker_p99: "1,000/s, due -> worker, p99",
    redis: "1,000/s, a core for Redis",
    empty: "1,000/s, pumps that found nothing",
};

const BUSY: LatenessNames = LatenessNames {
    ready_p50: "10,000/s, due -> ready, p50",
    ready_p99: "10,000/s, due -> ready, p99",
    ready_max: "10,000/s, due -> ready, max",
    worker_p50: "10,000/s, due -> worker, p50",
    worker_p99: "10,000/s, due -> worker, p99",
    redis: "10,000/s, a core for Redis",
    empty: "10,000/s, pumps that found nothing",
};

/// Which measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Putting.
    Put,
    /// Reserving and acking.
    Take,
    /// Bytes of a pending message.
    Memory,
    /// Many messages due at one instant.
    Storm,
    /// Lateness at a steady rate.
    Lateness,
    /// What an idle deployment costs.
    Idle,
}

// === impl Part ===

impl Part {
    /// All of them, in the order in which they are taken.
    pub const ALL: [Self; 6] = [Self::Put, Self::Take, Self::Memory, Self::Storm, Self::Lateness, Self::Idle];
}

// === impl Bench ===

impl Bench {
    /// Takes `parts` `runs` times and tells the median of each figure. `fleet` is of two
    /// timers; `progress` hears what is measured next.
    ///
    /// # Errors
    /// Redis cannot be used, or a message was early or lost.
    pub async fn suite(
        &self,
        parts: &[Part],
        runs: usize,
        fleet: &impl Fleet,
        mut progress: impl FnMut(Part, usize),
    ) -> Result<Vec<Figure>, BenchError> {
        let mut figures = Vec::new();
        for &part in parts {
            let mut taken = Vec::new();
            for i in 0..runs.max(1) {
                progress(part, i);
                taken.push(self.part(part, fleet).await?);
            }
            figures.extend(median(taken));
        }
        Ok(figures)
    }

    async fn part(&self, part: Part, fleet: &impl Fleet) -> Result<Vec<Figure>, BenchError> {
        Ok(match part {
            Part::Put => {
                let batches = self.put_in_batches().await?;
                let reached = batches.measured;
                vec![
                    batches,
                    self.put_one_by_one(256, "put, 256 callers, one by one", reached).await?,
                    self.put_one_by_one(64, "put, 64 callers, one by one", reached).await?,
                ]
            }
            Part::Take => vec![self.reserve_and_ack().await?, self.workers().await?],
            Part::Memory => vec![self.bytes_a_message().await?],
            Part::Storm => self.storm(fleet).await?,
            Part::Lateness => {
                let mut figures = self.lateness(1_000, STEADY, fleet).await?;
                figures.extend(self.lateness(10_000, BUSY, fleet).await?);
                figures
            }
            Part::Idle => self.idle(fleet).await?,
        })
    }
}
