//! The effect of the number of shards on one Redis: throughput, lateness and memory over 1, 2, 4, … shards.

use crate::bench::Bench;
use crate::error::BenchError;
use crate::figures::Figure;
use crate::lateness::LatenessTargets;
use crate::shape::Shape;
use crate::timers::Timers;
use delayq::ShardCount;

const RATE: u64 = 10_000;

// === impl Bench ===

impl Bench {
    /// Own ids with groups over 1, 2, 4, … up to `most` shards: figures per number, without limits and targets.
    pub(crate) async fn over_shards(
        &self,
        most: ShardCount,
        timers: &Timers,
    ) -> Result<Vec<Figure>, BenchError> {
        let mut figures = Vec::new();
        for shards in (0..).map(|power| 1 << power).take_while(|&shards| shards <= most.get()) {
            let shards = ShardCount::new(shards).expect("a count up to another one");
            eprintln!("measuring over {} shards", shards.get());
            let shape = Shape::grouped(shards);
            figures.push(self.put_in_batches(shape).await?);
            figures.push(self.put_one_by_one(shape).await?);
            figures.push(self.workers(shape).await?);
            figures.extend(self.lateness(shape, RATE, LatenessTargets::BUSY, timers).await?);
            figures.push(self.bytes_a_message(shape).await?);
        }
        Ok(figures)
    }
}
