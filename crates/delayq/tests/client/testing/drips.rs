use delayq::Message;
use delayq::worker::{Failure, Job};
use std::time::Duration;

const PAUSES: [Duration; 2] = [Duration::from_hours(48), Duration::from_hours(96)];

pub async fn send_mail(job: Job) -> Result<Option<Message>, Failure> {
    let step: usize = std::str::from_utf8(job.payload())?.parse()?;
    println!("mail {step} to {:?}", job.group());
    let Some(pause) = PAUSES.get(step) else { return Ok(None) };
    let next = Message::new(job.topic.clone(), (step + 1).to_string()).with_id(job.id.clone()).after(*pause);
    Ok(Some(match job.group() {
        Some(group) => next.with_group(group.clone()),
        None => next,
    }))
}
