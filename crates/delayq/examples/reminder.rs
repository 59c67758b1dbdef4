//! Reminds of appointments two hours before, moves the reminder with its appointment, and drops all of a patient who
//! leaves.
//!
//! `REDIS_URL=redis://127.0.0.1:6379 cargo run -p delayq --example reminder`, beside `delayq up`.

use delayq::{
    Client, Due, Group, GroupTally, Message, MessageId, Producer, ProducerOptions, Put, Reschedule,
    RescheduleOutcome, Settings, Shift, Target, Topic, UnixMillis,
};
use std::error::Error;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub(crate) const BEFORE: Duration = Duration::from_secs(2 * 60 * 60);

/// The reminders of a practice: one for each appointment, the patient is its group.
pub(crate) struct Reminders {
    pub(crate) producer: Producer,
    pub(crate) topic: Topic,
}

impl Reminders {
    /// Reminds `patient` of an appointment. One that is less than two hours away reminds at once.
    pub(crate) async fn remind(&self, appointment: &str, patient: &str, at: UnixMillis) -> Result<Put> {
        let reminder = Message::new(self.topic.clone(), format!("{patient}: {appointment}"))
            .id(appointment)?
            .group(patient)?
            .at(reminder_time(at))
            .expires(at);
        Ok(self.producer.put(reminder).await?)
    }

    /// The appointment is at another time, no later than it was: its reminder expires with the old one.
    pub(crate) async fn appointment_moved(
        &self,
        appointment: &str,
        patient: &str,
        to: UnixMillis,
    ) -> Result<RescheduleOutcome> {
        let target = Target::in_group(MessageId::own(appointment)?, Group::new(patient)?);
        let change = Reschedule::To(Due::At(reminder_time(to)));
        Ok(self.producer.reschedule(&self.topic, &target, change).await?)
    }

    /// Every reminder of a patient comes so much earlier. The token makes a repeat move nothing twice.
    pub(crate) async fn remind_earlier(
        &self,
        patient: &str,
        by: Duration,
        token: &str,
    ) -> Result<GroupTally> {
        Ok(self.producer.reschedule_group(&Group::new(patient)?, Shift::Earlier(by), token).await?)
    }

    /// The patient has left: no reminder is sent any more.
    pub(crate) async fn patient_left(&self, patient: &str) -> Result<GroupTally> {
        Ok(self.producer.cancel_group(&Group::new(patient)?).await?)
    }
}

fn reminder_time(appointment: UnixMillis) -> UnixMillis {
    let before_ms = BEFORE.as_millis() as u64;
    UnixMillis::new(appointment.get().saturating_sub(before_ms).max(1))
}

#[tokio::main]
#[allow(dead_code, reason = "a test runs the parts of this example without its main")]
#[allow(clippy::disallowed_methods, reason = "the one setting of an example")]
async fn main() -> Result<()> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".to_owned());
    let client = Client::connect(Settings::new(url)).await?;
    let producer = Producer::start(client, ProducerOptions::default());
    let reminders = Reminders { producer, topic: Topic::new("reminders")? };

    let (first_of_june, day) = (UnixMillis::new(2_074_932_000_000), Duration::from_secs(24 * 60 * 60));
    println!("{:?}", reminders.remind("check-up-7", "patient-5", first_of_june + day).await?.outcome);
    println!("{:?}", reminders.appointment_moved("check-up-7", "patient-5", first_of_june).await?);
    println!("{:?}", reminders.remind_earlier("patient-5", Duration::from_secs(60), "earlier-1").await?);
    println!("{:?}", reminders.patient_left("patient-5").await?);
    Ok(())
}
