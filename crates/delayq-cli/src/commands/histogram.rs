//! `delayq histogram`.

use crate::commands::list::range;
use crate::deployment::Context;
use crate::failure::{of_core, usage};
use crate::output::{add_time, time};
use clap::Args;
use delayq::admin::Slot;
use delayq::{Group, Topic};
use delayq_service::Fault;
use delayq_service::config::HumanDuration;
use delayq_service::when::When;
use serde_json::{Value, json};

const BAR: u64 = 40;

/// Show when a topic's pending messages become due
#[derive(Debug, Args)]
pub struct Histogram {
    /// The topic
    topic: Topic,
    /// The width of an interval: 1m to 1h, a divisor of an hour
    #[arg(long, default_value = "1h", value_name = "DURATION")]
    width: HumanDuration,
    /// Only messages of this group: reads each of them
    #[arg(long, value_name = "GROUP")]
    group: Option<Group>,
    /// Due from this time
    #[arg(long, value_name = "TIME")]
    from: Option<When>,
    /// Due up to this time
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
}

// === impl Histogram ===

impl Histogram {
    /// Prints the histogram.
    ///
    /// # Errors
    /// Redis cannot be used, or the width is invalid.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let width_s = self.width.as_secs();
        if !(60..=3600).contains(&width_s) || 3600 % width_s > 0 || self.width.subsec_nanos() > 0 {
            return Err(usage(format!("--width {}: must divide an hour, from 1m to 1h", self.width)));
        }
        context.known_topic(&self.topic).await?;
        let range = range(context, self.from, self.until).await?;
        let (admin, width) = (context.admin(), *self.width);
        let topic = admin.topic(&self.topic);
        let slots = match &self.group {
            None => topic.histogram(range, width).await,
            Some(group) => topic.histogram_of_group(group, range, width).await,
        };
        let slots = slots.map_err(of_core)?;
        let value = |slot: &Slot| {
            let mut value = json!({ "count": slot.count });
            add_time(&mut value, "from", Some(slot.start));
            value
        };
        let values: Vec<Value> = slots.iter().map(value).collect();
        context.output.print(&values, || {
            if slots.is_empty() {
                return "nothing is pending".to_owned();
            }
            let most = slots.iter().map(|slot| slot.count).max().unwrap_or(1).max(1);
            let mut rows = context.output.rows(&["from", ">messages", ""]);
            for slot in &slots {
                let bar = "█".repeat((slot.count * BAR).div_ceil(most) as usize);
                rows.row([time(slot.start), slot.count.to_string(), bar]);
            }
            rows.text()
        })
    }
}
