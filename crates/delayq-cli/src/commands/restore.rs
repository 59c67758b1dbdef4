//! `delayq restore`: the messages of a backup, put again.

use crate::backup_line::{Dictionary, LeftOut, Record, TopicPolicy};
use crate::commands::put::many::{InputLine, LineFault, Lines, Many};
use crate::deployment::Context;
use crate::failure::{BACKUP_UNUSABLE, LINES_REFUSED, of_core};
use crate::output::complain;
use base64::Engine as _;
use clap::Args;
use delayq::{Admin, Due, Group, Producer, ProducerOptions, Topic};
use delayq_service::Fault;
use delayq_service::policy_text::policy_of;
use delayq_service::put_line::parse_any;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Restore a backup: put its messages again, under their ids
///
/// The target may be this or any other deployment: another Redis, namespace or number of shards. Safe to repeat, and to
/// continue after an interruption: a message that is there already is answered with `exists`. Payload, headers, group, due
/// time, expiry and own back-off come from the backup; attempts and the wait of a debounce count from scratch. Overdue messages are ready at
/// once.
#[derive(Debug, Args)]
pub struct Restore {
    /// The file; - for standard input
    file: PathBuf,
    /// Also restore dead letters, as messages that are ready at once
    #[arg(long)]
    dead: bool,
    /// Leave the topics' policies unchanged
    #[arg(long)]
    no_policies: bool,
    /// Only this topic; may be repeated
    #[arg(long = "topic", short = 't', value_name = "TOPIC")]
    topics: Vec<Topic>,
    /// Start at this line, where an interrupted restore stopped; the first is 1
    #[arg(long, value_name = "LINE", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    from_line: u64,
    /// Stop at the first line that is refused
    #[arg(long)]
    strict: bool,
    /// How many puts may be in flight
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..=16384))]
    in_flight: u16,
}

struct Backup<'r> {
    restore: &'r Restore,
    admin: Admin,
    begun: bool,
    ended: bool,
    left_out: LeftOut,
    json: bool,
}

// === impl Restore ===

impl Restore {
    /// Puts the messages of the backup.
    ///
    /// # Errors
    /// The file cannot be read or is not a whole backup, a line was refused (all other lines are put), or Redis cannot
    /// be used.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let admin = context.admin();
        // Read before the first id, because the configured shard count may differ from the deployment's.
        admin.layout().await.map_err(of_core)?;
        let (from, in_flight) = (self.file.clone(), self.in_flight.into());
        let many = Many { from, from_line: self.from_line, strict: self.strict, in_flight };
        // Without the spool of this host: a message that cannot be put is reported, and the user repeats the restore.
        let producer = Producer::start(context.client().clone(), ProducerOptions::default());
        let (left_out, json) = (LeftOut::default(), context.output.json);
        let mut lines = Backup { restore: &self, admin, begun: false, ended: false, left_out, json };
        let put = many.run(context, &producer, &mut lines).await;
        match put {
            Ok(()) if lines.ended => return Ok(()),
            // A line that was cut off is refused, but the missing rest of the backup matters more. An outage and a
            // strict restore stop before the end.
            Err(fault) if lines.ended || self.strict || fault.code() != &LINES_REFUSED => return Err(fault),
            _ => {}
        }
        let what = match lines.begun {
            true => "incomplete backup (interrupted); restored what it contains",
            false => "not a whole backup (neither beginning nor end); restored what it contains",
        };
        Err(Fault::new(&BACKUP_UNUSABLE, format!("{}: {what}", self.file.display())))
    }

    fn wants(&self, topic: &Topic) -> bool {
        self.topics.is_empty() || self.topics.contains(topic)
    }
}

// === impl Backup ===

impl Lines for Backup<'_> {
    async fn line(&mut self, line: &[u8]) -> Result<InputLine, LineFault> {
        match Record::of_line(line).map_err(LineFault::Refused)? {
            None => self.message(line),
            Some(record) => self.record(record).await,
        }
    }
}

impl Backup<'_> {
    fn message(&self, line: &[u8]) -> Result<InputLine, LineFault> {
        let parsed = parse_any(line, None, true).map_err(LineFault::Refused)?;
        let mut message = parsed.message;
        if !self.restore.wants(&message.topic) || parsed.dead && !self.restore.dead {
            return Ok(InputLine::LeftOut);
        }
        if parsed.dead {
            // Due now, as after a replay. A message that has expired meanwhile is refused by name.
            message.due = Due::After(Duration::ZERO);
        }
        message.id = message.id.as_ref().map(|id| self.admin.id_here(id, message.group.as_ref()));
        Ok(InputLine::Put(Box::new(message)))
    }

    async fn record(&mut self, record: Record) -> Result<InputLine, LineFault> {
        match record {
            Record::Backup(_) => (self.begun, self.ended) = (true, false),
            Record::End(_) => self.ended = true,
            Record::Policy(_) | Record::Dictionary(_) if self.restore.no_policies => {
                return Ok(InputLine::LeftOut);
            }
            Record::Policy(policy) => return self.policy(policy).await,
            Record::Dictionary(dictionary) => self.dictionary(dictionary).await?,
            Record::LeftOut(left_out) => self.is_left_out(left_out),
            Record::Checkpoint(_) => {}
        }
        Ok(InputLine::Record)
    }

    /// Reports each set of missing shards once.
    fn is_left_out(&mut self, left_out: LeftOut) {
        if self.left_out != left_out {
            let sentence = left_out.sentence();
            complain(&match self.json {
                true => json!({ "left_out": left_out, "message": sentence }).to_string(),
                false => sentence,
            });
            self.left_out = left_out;
        }
    }

    /// A paused topic or group is paused again, but none is resumed: somebody may have paused it here.
    async fn policy(
        &self,
        TopicPolicy { topic, settings, paused, paused_groups, rate }: TopicPolicy,
    ) -> Result<InputLine, LineFault> {
        let topic: Topic = topic.parse().map_err(|error| LineFault::Refused(format!("{error}")))?;
        if !self.restore.wants(&topic) {
            return Ok(InputLine::LeftOut);
        }
        let policy = policy_of(&settings).map_err(LineFault::Refused)?;
        let groups = paused_groups.into_iter().map(Group::new).collect::<Result<Vec<_>, _>>();
        let groups = groups.map_err(|error| LineFault::Refused(format!("paused_groups: {error}")))?;
        let set = async {
            self.admin.topic(&topic).set_policy(&policy).await?;
            if paused {
                self.admin.topic(&topic).pause().await?;
            }
            for group in &groups {
                self.admin.topic(&topic).pause_group(group).await?;
            }
            if rate.is_some() {
                self.admin.topic(&topic).set_rate(rate).await?;
            }
            Ok(())
        };
        set.await.map_err(|error| LineFault::Stop(of_core(error)))?;
        Ok(InputLine::Record)
    }

    async fn dictionary(&self, Dictionary { id, bytes_base64 }: Dictionary) -> Result<(), LineFault> {
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(bytes_base64)
            .map_err(|error| LineFault::Refused(format!("bytes_base64: {error}")))?;
        self.admin.dictionaries().keep(id, &bytes).await.map_err(|error| LineFault::Stop(of_core(error)))
    }
}
