//! `delayq backup`: the pending messages as NDJSON.

use crate::backup_line::{Begin, Checkpoint, Dictionary, FORMAT, LeftOut, Record, Tally, TopicPolicy};
use crate::commands::backup::target::{BackupTarget, Interrupted};
use crate::deployment::{Context, check_topic};
use crate::failure::{BACKUP_INCOMPLETE, INTERRUPTED, of_core};
use crate::naming::named;
use crate::output::{complain, counted};
use base64::Engine as _;
use clap::Args;
use delayq::admin::{Codec, Listed, Walk, WalkCursor};
use delayq::protocol::{NodeName, ShardRanges};
use delayq::{Admin, Group, State, Topic};
use delayq_service::Fault;
use delayq_service::policy_text::settings_of;
use delayq_service::put_line::line_of;
use indicatif::ProgressBar;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::pin;

mod target;

/// Reason for leaving out a message or topic that another program stored.
const OUTSIDE: &str = "its name breaks the naming rules, so no restore could put it";

/// Messages between two checkpoints, from which an interrupted backup continues.
const CHECKPOINT_EVERY: u64 = 1000;

/// Back up pending messages as NDJSON
///
/// The backup contains every message that is pending from its beginning to its end, whatever happens to it meanwhile; a
/// message that is put or finishes meanwhile may or may not be in it. Leased messages count as pending. Topic policies are
/// included, dead letters with --dead. The deployment stays in use, even while its shards move to other nodes. `delayq
/// restore` and `delayq put --from` read the file.
#[derive(Debug, Args)]
pub struct Backup {
    /// The file to write; - for standard output
    file: PathBuf,
    /// Only this topic; may be repeated
    #[arg(long = "topic", short = 't', value_name = "TOPIC")]
    topics: Vec<Topic>,
    /// Dead letters too
    #[arg(long)]
    dead: bool,
    /// Continue a backup that was interrupted
    #[arg(long, conflicts_with_all = ["topics", "dead", "overwrite"])]
    resume: bool,
    /// Replace the file
    #[arg(long)]
    overwrite: bool,
    /// Leave out the shards of this one of several Redises, which is lost for good; may be repeated. Output, file and a later
    /// restore say so, and --resume keeps to it
    #[arg(long = "without-node", value_name = "NAME")]
    without_nodes: Vec<NodeName>,
}

struct BackupRun<'c> {
    context: &'c Context,
    admin: Admin,
    target: BackupTarget,
    begin: Begin,
    left_out: LeftOut,
    tally: Tally,
    marked: u64,
    bar: ProgressBar,
}

// === impl Backup ===

impl Backup {
    /// Writes the backup.
    ///
    /// # Errors
    /// Redis or the file cannot be used; or some messages could not be read, and all readable messages are written.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let bar = context.output.spinner();
        let (mut run, walk) = match self.resume {
            true => self.resumed(context, bar).await?,
            false => self.begun(context, bar).await?,
        };
        let topics = run.begin.topics.iter().map(|topic| topic.parse::<Topic>());
        let topics: Vec<Topic> =
            topics.collect::<Result<_, _>>().map_err(|why| self.unusable(&why.to_string()))?;
        run.all(walk.only(topics)).await?;
        run.end()
    }

    async fn begun<'c>(
        &self,
        context: &'c Context,
        bar: ProgressBar,
    ) -> Result<(BackupRun<'c>, Walk), Fault> {
        let admin = context.admin().without(self.without_nodes.iter().cloned()).map_err(of_core)?;
        let layout = admin.layout().await.map_err(of_core)?;
        for topic in &self.topics {
            check_topic(&admin, topic).await?;
        }
        let first: Vec<_> = admin.shards().all().into_iter().take(1).collect();
        let overview = admin.shards().overview_of(&first).await.pop().expect("a shard is not left out");
        let begin = Begin {
            format: FORMAT,
            namespace: context.config.deployment.namespace.to_string(),
            shards: layout.to_string(),
            dead: self.dead,
            topics: self.topics.iter().map(Topic::to_string).collect(),
            begun_ms: overview.map_err(of_core)?.now.millis().get(),
        };
        let walk = admin.walk(None).await.map_err(of_core)?;
        let target = BackupTarget::create(&self.file, self.overwrite)?;
        let (left_out, tally) = (LeftOut::default(), Tally::default());
        let mut run = BackupRun { context, admin, target, begin, left_out, tally, marked: 0, bar };
        run.begin().await?;
        run.leave_out()?;
        run.checkpoint(&walk)?;
        Ok((run, walk))
    }

    async fn resumed<'c>(
        &self,
        context: &'c Context,
        bar: ProgressBar,
    ) -> Result<(BackupRun<'c>, Walk), Fault> {
        let (target, Interrupted { begin, left_out, checkpoint }) = BackupTarget::resume(&self.file)?;
        let (tally, cursor) = (checkpoint.tally, checkpoint.cursor.parse::<WalkCursor>());
        let cursor = cursor.map_err(|why| self.unusable(&why))?;
        let namespace = context.config.deployment.namespace.as_str();
        if begin.namespace != namespace {
            let why = format!("the backup is of namespace {}, not {namespace}", begin.namespace);
            return Err(self.unusable(&why));
        }
        let before = left_out.nodes.iter().map(|name| name.parse::<NodeName>());
        let before: Vec<NodeName> =
            before.collect::<Result<_, _>>().map_err(|why| self.unusable(&why.to_string()))?;
        let nodes = before.into_iter().chain(self.without_nodes.iter().cloned());
        let admin = context.admin().without(nodes).map_err(of_core)?;
        admin.layout().await.map_err(of_core)?;
        let walk = admin.walk(Some(&cursor)).await.map_err(of_core)?;
        let marked = tally.pending + tally.dead;
        let mut run = BackupRun { context, admin, target, begin, left_out, tally, marked, bar };
        run.leave_out()?;
        run.checkpoint(&walk)?;
        Ok((run, walk))
    }

    fn unusable(&self, why: &str) -> Fault {
        target::unusable(&self.file, why)
    }
}

// === impl BackupRun ===

impl BackupRun<'_> {
    /// A restore needs these records before the messages.
    async fn begin(&mut self) -> Result<(), Fault> {
        self.write(&Record::Backup(self.begin.clone()))?;
        let (admin, mut dictionaries) = (self.admin.clone(), BTreeSet::new());
        // A topic's rate is the sum of equal parts, a part for each shard.
        let (here, left_out) = (admin.shards().all().len() as f64, admin.shards().left_out().len() as f64);
        for topic in admin.topics().await.map_err(of_core)? {
            if !self.begin.topics.is_empty() && !self.begin.topics.iter().any(|one| one == topic.as_str()) {
                continue;
            }
            let policy = admin.topic(&topic).policy().await.map_err(of_core)?;
            let numbers = admin.topic(&topic).count().await.map_err(of_core)?;
            if numbers.unreadable > 0 {
                self.missing(&topic, None, "one of its keys has the wrong type: run delayq audit");
            }
            if topic.is_odd() {
                self.missing(&topic, None, OUTSIDE);
                continue;
            }
            if let Some(Codec::ZstdDictionary(id)) = policy.codec
                && !dictionaries.contains(&id)
                && let Some(bytes) = admin.dictionaries().get(id).await.map_err(of_core)?
            {
                let bytes_base64 = base64::engine::general_purpose::STANDARD.encode(bytes);
                self.write(&Record::Dictionary(Dictionary { id, bytes_base64 }))?;
                dictionaries.insert(id);
            }
            let paused_groups = match numbers.paused_groups {
                0 => Vec::new(),
                _ => admin.topic(&topic).paused_groups().await.map_err(of_core)?,
            };
            self.write(&Record::Policy(TopicPolicy {
                topic: topic.to_string(),
                settings: settings_of(&policy),
                paused: numbers.paused > 0,
                paused_groups: paused_groups.into_iter().map(|paused| paused.group.to_string()).collect(),
                rate: numbers.rate.map(|rate| rounded(rate * (here + left_out) / here)),
            }))?;
        }
        Ok(())
    }

    fn leave_out(&mut self) -> Result<(), Fault> {
        let nodes: Vec<String> = self.admin.nodes().left_out().map(NodeName::to_string).collect();
        if nodes.is_empty() {
            return Ok(());
        }
        let shards = self.admin.shards().left_out().into_iter().collect::<ShardRanges>().to_string();
        self.left_out = LeftOut { nodes, shards };
        self.write(&Record::LeftOut(self.left_out.clone()))?;
        let sentence = self.left_out.sentence();
        let complaint = match self.context.output.json {
            true => json!({ "left_out": self.left_out, "message": sentence }).to_string(),
            false => sentence,
        };
        self.bar.suspend(|| complain(&complaint));
        Ok(())
    }

    async fn all(&mut self, mut walk: Walk) -> Result<(), Fault> {
        let mut interrupt = pin!(tokio::signal::ctrl_c());
        loop {
            let step = tokio::select! {
                biased;
                _ = &mut interrupt => {
                    self.checkpoint(&walk)?;
                    let left = format!("interrupted after {}", counted(self.tally.pending, "message"));
                    return Err(Fault::new(&INTERRUPTED, format!("{left}{}", self.target.how_to_resume())));
                }
                step = walk.step() => step,
            };
            let Some(messages) = step.map_err(|error| self.stopped(&walk, of_core(error)))? else {
                return Ok(());
            };
            for listed in messages {
                self.message(&listed)?;
            }
            let node = walk.node().map(|node| format!(", at {node}")).unwrap_or_default();
            self.bar.set_message(format!("{} messages{node}", self.tally.pending));
            self.bar.tick();
            if self.tally.pending + self.tally.dead >= self.marked + CHECKPOINT_EVERY {
                self.checkpoint(&walk)?;
            }
        }
    }

    /// Keeps the messages read before Redis failed, so that the backup can be resumed.
    fn stopped(&mut self, walk: &Walk, fault: Fault) -> Fault {
        self.bar.finish_and_clear();
        match self.checkpoint(walk) {
            Ok(()) => {
                let left = format!("stopped after {}", counted(self.tally.pending, "message"));
                Fault::new(fault.code(), format!("{left}{}", self.target.how_to_resume())).because(fault)
            }
            Err(fault) => fault,
        }
    }

    fn message(&mut self, listed: &Listed) -> Result<(), Fault> {
        match &listed.envelope {
            Ok(_) if listed.topic.is_odd() || listed.id.is_odd() => self.unreadable(listed, OUTSIDE),
            Ok(envelope) if envelope.state == State::Dead && !self.begin.dead => {}
            // A doomed message is not retried, so there is nothing to restore.
            Ok(envelope) if envelope.doomed => {}
            Ok(envelope) if envelope.zstd => {
                self.unreadable(
                    listed,
                    "its payload cannot be restored: the bytes are damaged, or the \
                     dictionary is missing",
                );
            }
            Ok(envelope) => {
                self.target.line(&line_of(listed, envelope))?;
                match envelope.state {
                    State::Dead => self.tally.dead += 1,
                    _ => self.tally.pending += 1,
                }
            }
            Err(error) => self.unreadable(listed, &error.to_string()),
        }
        Ok(())
    }

    fn unreadable(&mut self, listed: &Listed, why: &str) {
        self.missing(&listed.topic, Some(listed), why);
    }

    /// Reports an item missing from the backup: a message, or another part of a topic.
    fn missing(&mut self, topic: &Topic, message: Option<&Listed>, why: &str) {
        self.tally.missing += 1;
        let complaint = match (self.context.output.json, message) {
            (true, message) => {
                let group = message.and_then(|listed| listed.group.as_ref()).map(Group::as_str);
                let id = message.map(|listed| &listed.id);
                json!({ "topic": topic, "id": id, "group": group, "message": why }).to_string()
            }
            (false, Some(listed)) => format!("{topic} {}: {why}", named(&listed.id, listed.group.as_ref())),
            (false, None) => format!("{topic}: {why}"),
        };
        self.bar.suspend(|| complain(&complaint));
    }

    fn checkpoint(&mut self, walk: &Walk) -> Result<(), Fault> {
        self.marked = self.tally.pending + self.tally.dead;
        self.write(&Record::Checkpoint(Checkpoint { cursor: walk.cursor().to_string(), tally: self.tally }))?;
        self.target.flush()
    }

    fn end(mut self) -> Result<(), Fault> {
        self.leave_out()?;
        self.write(&Record::End(self.tally))?;
        self.bar.finish_and_clear();
        let to_stdout = self.target.is_stdout();
        self.target.finish()?;
        let Tally { pending, dead, missing } = self.tally;
        let mut value = json!({ "pending": pending, "dead": dead, "missing": missing });
        if !self.left_out.nodes.is_empty() {
            value["left_out"] = json!(self.left_out);
        }
        let text = || sentence(self.tally);
        match to_stdout {
            true => complain(&if self.context.output.json { value.to_string() } else { text() }),
            false => self.context.output.print(&value, text)?,
        }
        match missing {
            0 => Ok(()),
            _ => {
                let what = format!("{} not in the backup", counted(missing, "message"));
                Err(Fault::new(&BACKUP_INCOMPLETE, what))
            }
        }
    }

    fn write(&mut self, record: &Record) -> Result<(), Fault> {
        self.target.line(&record.line())
    }
}

/// Rounds away the error from adding up the shards' parts of a rate.
fn rounded(rate: f64) -> f64 {
    (rate * 1e6).round() / 1e6
}

fn sentence(Tally { pending, dead, missing }: Tally) -> String {
    let mut text = format!("backed up {}", counted(pending, "message"));
    if dead > 0 {
        text.push_str(&format!(" and {}", counted(dead, "dead letter")));
    }
    if missing > 0 {
        text.push_str(&format!("; {missing} could not be read"));
    }
    text
}
