//! `delayq count`.

mod follow;

use crate::commands::topics;
use crate::deployment::Context;
use crate::failure::of_core;
use crate::look::look;
use clap::Args;
use delayq::Topic;
use delayq_service::Fault;

/// Count messages by state
#[derive(Debug, Args)]
pub struct Count {
    /// The topic; without one, all topics together
    topic: Option<Topic>,
    /// Print a line whenever the counts change, until Ctrl-C: the change, and the current counts
    #[arg(long, requires = "topic")]
    follow: bool,
}

// === impl Count ===

impl Count {
    /// Prints them.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        match self.topic {
            Some(topic) if self.follow => {
                context.known_topic(&topic).await?;
                follow::follow(context, &topic).await
            }
            topic => look(context, async |part| Self::print(topic, part).await).await,
        }
    }

    async fn print(topic: Option<Topic>, context: &Context) -> Result<(), Fault> {
        let admin = context.admin();
        let topics = match topic {
            Some(topic) => {
                context.known_topic(&topic).await?;
                vec![topic]
            }
            None => admin.topics().await.map_err(of_core)?,
        };
        let mut total = delayq::admin::Numbers::default();
        for topic in &topics {
            total.add(&admin.count(topic).await.map_err(of_core)?);
        }
        context.output.print(&topics::json_of(&total), || {
            let mut rows = context.output.rows(&["state", ">messages"]);
            for (name, number) in topics::columns(&total) {
                rows.row([name.to_owned(), number.to_string()]);
            }
            rows.text()
        })
    }
}
