//! `delayq count`.

use crate::commands::topics;
use crate::deployment::Context;
use crate::look::{finish, known};
use clap::Args;
use delayq::Topic;
use delayq_look::{Look, Want, Which, total};
use delayq_service::Fault;

/// Count messages by state
#[derive(Debug, Args)]
pub struct Count {
    /// The topic; without one, all topics together
    topic: Option<Topic>,
}

// === impl Count ===

impl Count {
    /// Prints the numbers.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let topics = match &self.topic {
            Some(topic) => Which::Only(std::slice::from_ref(topic)),
            None => Which::All(None),
        };
        let look = Look::take(&context.deployment, Want { topics, ..Want::default() }).await;
        finish(&look, print(context, &look, self.topic.as_slice()))
    }
}

fn print(context: &Context, look: &Look, topics: &[Topic]) -> Result<(), Fault> {
    let total = total(known(look, topics)?.numbers.values());
    context.output.print(&topics::json_of(&total), || {
        let mut rows = context.output.rows(&["state", ">messages"]);
        for (name, number) in topics::columns(&total) {
            rows.row([name.to_owned(), number.to_string()]);
        }
        rows.text()
    })
}
