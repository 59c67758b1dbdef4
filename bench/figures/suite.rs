//! All measurements in order, several times.

use crate::bench::Bench;
use crate::error::BenchError;
use crate::figures::{Figure, median};
use crate::lateness::LatenessTargets;
use crate::shape::Shape;
use crate::timers::Timers;
use delayq::ShardCount;

/// More shards than the default, to show the cost.
const MANY_SHARDS: ShardCount = match ShardCount::new(64) {
    Ok(shards) => shards,
    Err(_) => panic!("64 shards are not too many"),
};

/// A measurement.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Part {
    /// Putting in batches and one by one
    Put,
    /// Reserving and acking
    Take,
    /// Bytes of a pending message
    Memory,
    /// 50,000 messages due at one instant
    Storm,
    /// Due → ready and due → a waiting worker, at 1,000/s and 10,000/s
    Lateness,
    /// Cost of an idle deployment
    Idle,
    /// Whole lives, from put to ack, sustained for a minute
    Life,
    /// Throughput, lateness and memory over 1, 2, 4, … 64 shards; only by name
    Shards,
    /// Spooled puts and their replay, on the disk of the folder for temporary files (TMPDIR); only by name
    Spool,
    /// Rows of an outbox, compared with a bare reader, and while a snapshot is held; starts a PostgreSQL; only by name
    Outbox,
    /// A sweep of a million messages; only by name
    Sweep,
    /// In fair order, the wait of a message beside a million of another group; only by name
    Fair,
}

// === impl Part ===

impl Part {
    /// The default measurements, in this order.
    pub(crate) const USUAL: [Self; 7] =
        [Self::Put, Self::Take, Self::Memory, Self::Storm, Self::Lateness, Self::Idle, Self::Life];
}

// === impl Bench ===

impl Bench {
    /// Returns the median of each figure.
    pub(crate) async fn suite(
        &self,
        parts: &[Part],
        runs: usize,
        timers: &Timers,
    ) -> Result<Vec<Figure>, BenchError> {
        let mut figures = Vec::new();
        for &part in parts {
            let mut taken = Vec::new();
            for i in 0..runs.max(1) {
                eprintln!("measuring {part:?}, run {} of {runs}", i + 1);
                taken.push(self.part(part, timers).await?);
            }
            figures.extend(median(taken));
        }
        Ok(figures)
    }

    async fn part(&self, part: Part, timers: &Timers) -> Result<Vec<Figure>, BenchError> {
        let own = Shape::own(self.shards);
        let mut figures = Vec::new();
        match part {
            Part::Put => {
                for shape in Shape::all(self.shards) {
                    figures.extend(self.puts(shape).await?);
                }
            }
            Part::Take => {
                for shape in Shape::all(self.shards) {
                    figures.extend(self.takes(shape).await?);
                }
            }
            Part::Memory => {
                for shape in Shape::all(self.shards) {
                    figures.push(self.memory(shape).await?);
                }
            }
            Part::Storm => figures = self.storm(own, timers).await?,
            Part::Lateness => {
                figures = self.lateness(own, 1_000, LatenessTargets::STEADY, timers).await?;
                figures.extend(self.lateness(own, 10_000, LatenessTargets::BUSY, timers).await?);
                let (many, targets) = (Shape::own(MANY_SHARDS), LatenessTargets::BUSY.times(1.5));
                if many != own {
                    figures.extend(self.lateness(many, 10_000, targets, timers).await?);
                }
            }
            Part::Idle => figures = self.idle(own, timers).await?,
            Part::Life => figures = self.lives(own, timers).await?,
            Part::Spool => figures = self.spool(own).await?,
            Part::Shards => figures = self.over_shards(MANY_SHARDS, timers).await?,
            Part::Outbox => figures = self.outbox(own).await?,
            Part::Sweep => figures = self.sweep(own).await?,
            Part::Fair => figures = self.fair(Shape::grouped(self.shards)).await?,
        }
        Ok(figures)
    }
}
