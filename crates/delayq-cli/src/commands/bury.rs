//! `delayq bury`.

use crate::deployment::Context;
use crate::failure::{of_core, refused, unknown};
use crate::naming::elsewhere;
use crate::output::time;
use clap::Args;
use delayq::admin::Acted;
use delayq::{Group, MessageId, Target, Topic};
use delayq_service::Fault;
use serde_json::{Value, json};

/// Make pending messages dead letters
///
/// No worker gets them until somebody replays them: delayq dead replay. The reason is kept with each.
#[derive(Debug, Args)]
pub struct Bury {
    /// Their topic
    topic: Topic,
    /// Their ids
    #[arg(required = true)]
    ids: Vec<MessageId>,
    /// Their group: an own id is another message in each group
    #[arg(long, short = 'g')]
    group: Option<Group>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

// === impl Bury ===

impl Bury {
    /// Buries the messages.
    ///
    /// # Errors
    /// Redis cannot be used; or a message is not pending, and all pending ones were buried.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let (admin, mut buried) = (context.admin(), Vec::new());
        for id in self.ids {
            let target = Target { id, group: self.group.clone() };
            let acted = admin.topic(&self.topic).bury(&target, &self.reason).await.map_err(of_core)?;
            buried.push((target, acted));
        }
        let values: Vec<Value> = buried.iter().map(|(target, acted)| json_of(target, acted)).collect();
        context.output.print(&values, || {
            let mut rows = context.output.rows(&["id", "outcome"]);
            for (target, acted) in &buried {
                rows.judged(*acted == Acted::Buried, [target.id.to_string(), sentence(target, acted)]);
            }
            rows.text()
        })?;
        let not = buried.iter().filter(|(_, acted)| *acted != Acted::Buried).count();
        let missing = buried.iter().filter(|(_, acted)| *acted == Acted::Unknown).count();
        match (not, buried.as_slice()) {
            (0, _) => Ok(()),
            (1, [(only, Acted::Unknown)]) => Err(context.unknown_message(&self.topic, only).await),
            _ if not == missing => Err(unknown(format!("{not} of {} do not exist", buried.len()))),
            _ => Err(refused(format!("{not} of {} could not be made dead letters", buried.len()))),
        }
    }
}

fn json_of(target: &Target, acted: &Acted) -> Value {
    let mut value = json!({ "id": target.id, "outcome": acted.word() });
    match acted {
        Acted::Kept(state) | Acted::Changed(state, _) | Acted::Finished(state, _) => {
            value["state"] = state.word().into();
        }
        Acted::Refused(why) | Acted::Failed(why) => value["reason"] = why.as_str().into(),
        _ => {}
    }
    value
}

fn sentence(target: &Target, acted: &Acted) -> String {
    match acted {
        Acted::Buried => "made a dead letter".to_owned(),
        Acted::Kept(state) => format!("not pending: it is {}", state.word()),
        Acted::Changed(..) => "moved by others again and again; try again".to_owned(),
        Acted::Finished(state, at) => format!("finished: {state} {}", time(*at)),
        Acted::Unknown => format!("no such message{}", elsewhere(target)),
        acted => acted.word().to_owned(),
    }
}
