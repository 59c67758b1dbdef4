//! The part of the deployment that a caller sees: all of it, or that of a tenant. Takes and returns names as the caller sees
//! them: the only way of a route to the clients, so no route can forget a prefix.

mod consuming;
mod operations;
mod paging;
mod rooms;
mod topics;
mod turns;

pub(crate) use paging::Paged;
pub(crate) use rooms::Room;

use super::App;
use crate::problem::{Kind, Problem};
use crate::sessions::Caller;
use crate::tenant::Names;
use crate::turns::{TenantTurn, end_part};
use axum::http::Extensions;
use delayq::admin::{Acted, Action, History, Listed, Promotable, PromoteOptions, Promoted, Replayed, Tag};
use delayq::{
    CancelOutcome, Error, GroupTally, Members, Message, Put, PutError, Reschedule, RescheduleOutcome, Shift,
    Target, Topic,
};
use serde_json::Value;
use std::time::Duration;

/// Clones share the clients.
#[derive(Clone)]
pub(crate) struct Scope {
    app: App,
    names: Names,
    /// `None`: no tenant limits the caller.
    turn: Option<TenantTurn>,
}

/// The targets of a call with a target each; the answers have the same order.
type Each<T> = Vec<Result<T, Problem>>;

// === impl Scope ===

impl Scope {
    /// Of the whole deployment.
    pub(crate) fn whole(app: &App) -> Self {
        Self { app: app.clone(), names: Names::of(None), turn: None }
    }

    /// As the guard has noted in the request.
    pub(crate) fn of(app: &App, noted: &Extensions) -> Self {
        let tenant = noted.get::<Caller>().and_then(|caller| caller.tenant.clone());
        if let (Some(spool), Some(tenant)) = (&app.unscoped().spool, &tenant) {
            spool.know(tenant);
        }
        Self { app: app.clone(), names: Names::of(tenant), turn: noted.get::<TenantTurn>().cloned() }
    }

    /// What everybody who may read sees of a message's payload.
    pub(crate) fn shown_payload(&self, listed: &Listed) -> Value {
        let stored = self.names.stored_topic(&listed.topic);
        stored.map_or(Value::Null, |stored| self.app.shown.of(&stored, listed))
    }

    pub(crate) async fn put(&self, message: Message) -> Result<Put, Problem> {
        let message = self.names.stored_message(message)?;
        self.admit(1).1?;
        self.put_answer(self.app.unscoped().producer.put(message).await)
    }

    /// In the order of the messages; what was refused before keeps its refusal.
    pub(crate) async fn put_many(&self, messages: Each<Message>) -> Each<Put> {
        let part = self.part(messages.len()).await;
        let stored = |message: Result<_, _>| message.and_then(|message| self.names.stored_message(message));
        let mut named: Each<Message> = messages.into_iter().map(stored).collect();
        let wanted = named.iter().filter(|message| message.is_ok());
        if let (admitted, Err(problem)) = self.admit(wanted.count()) {
            let refused = named.iter_mut().filter(|message| message.is_ok()).skip(admitted);
            refused.for_each(|message| *message = Err(problem.clone()));
        }
        let sent: Vec<Message> = named.iter().filter_map(|message| message.as_ref().ok().cloned()).collect();
        let refused = named.len() - sent.len();
        let mut puts = self.app.unscoped().producer.put_many(sent).await.into_iter();
        let answer = |message: Result<Message, Problem>| {
            message.and_then(|_| self.put_answer(puts.next().expect("each message has one answer")))
        };
        let answers = named.into_iter().map(answer).collect();
        if let Some(part) = part {
            end_part(part, refused);
        }
        answers
    }

    pub(crate) async fn cancel(&self, topic: &Topic, target: &Target) -> Result<CancelOutcome, Problem> {
        let (topic, target) = (self.names.stored_topic(topic)?, self.names.stored_target(target)?);
        self.answer(self.app.unscoped().producer.cancel(&topic, &target).await)
    }

    pub(crate) async fn cancel_many(&self, topic: &Topic, targets: &[Target]) -> Each<CancelOutcome> {
        let sent = async |topic: Topic, targets: Vec<Target>| {
            self.app.unscoped().producer.cancel_many(&topic, &targets).await
        };
        self.each(topic, targets, |target| self.names.stored_target(target), sent).await
    }

    pub(crate) async fn reschedule(
        &self,
        topic: &Topic,
        target: &Target,
        change: Reschedule,
    ) -> Result<RescheduleOutcome, Problem> {
        let (topic, target) = (self.names.stored_topic(topic)?, self.names.stored_target(target)?);
        self.answer(self.app.unscoped().producer.reschedule(&topic, &target, change).await)
    }

    pub(crate) async fn reschedule_many(
        &self,
        topic: &Topic,
        changes: &[(Target, Reschedule)],
    ) -> Each<RescheduleOutcome> {
        let named =
            |(target, change): &(Target, Reschedule)| Ok((self.names.stored_target(target)?, *change));
        let sent = async |topic: Topic, changes: Vec<(Target, Reschedule)>| {
            self.app.unscoped().producer.reschedule_many(&topic, &changes).await
        };
        self.each(topic, changes, named, sent).await
    }

    pub(crate) async fn cancel_group(&self, members: &Members) -> Result<GroupTally, Problem> {
        let members = self.names.stored_members(members)?;
        self.answer(self.app.unscoped().producer.cancel_group(&members).await)
    }

    pub(crate) async fn shift_group(
        &self,
        members: &Members,
        by: Shift,
        token: &str,
    ) -> Result<GroupTally, Problem> {
        let members = self.names.stored_members(members)?;
        self.answer(self.app.unscoped().producer.reschedule_group(&members, by, token).await)
    }

    pub(crate) async fn promote(
        &self,
        which: &Promotable,
        options: &PromoteOptions,
    ) -> Result<Promoted, Problem> {
        let which = match which {
            Promotable::Topic(topic) => Promotable::Topic(self.names.stored_topic(topic)?),
            Promotable::Members(members) => Promotable::Members(self.names.stored_members(members)?),
        };
        self.answer(self.app.unscoped().admin.promote(which, options, |_| {}).await)
    }

    pub(crate) async fn replay(
        &self,
        topic: &Topic,
        target: &Target,
        delay: Duration,
    ) -> Result<Replayed, Problem> {
        let (topic, target) = (self.names.stored_topic(topic)?, self.names.stored_target(target)?);
        self.answer(self.app.unscoped().admin.topic(&topic).replay_ids(&[target], delay).await)
    }

    /// Acts on the message if it still has this tag.
    pub(crate) async fn act_on(
        &self,
        topic: &Topic,
        target: &Target,
        tag: Tag,
        action: &Action,
    ) -> Result<Acted, Problem> {
        let (topic, target) = (self.names.stored_topic(topic)?, self.names.stored_target(target)?);
        self.answer(self.app.unscoped().admin.topic(&topic).act_on(&target, tag, action).await)
    }

    pub(crate) async fn bury(&self, topic: &Topic, target: &Target, reason: &str) -> Result<Acted, Problem> {
        let (topic, target) = (self.names.stored_topic(topic)?, self.names.stored_target(target)?);
        self.answer(self.app.unscoped().admin.topic(&topic).bury(&target, reason).await)
    }

    pub(crate) async fn get(&self, topic: &Topic, target: &Target) -> Result<Option<Listed>, Problem> {
        let (topic, target) = (self.names.stored_topic(topic)?, self.names.stored_target(target)?);
        let listed = self.answer(self.app.unscoped().admin.topic(&topic).get(&target).await)?;
        Ok(listed.and_then(|listed| self.names.shown(listed)))
    }

    pub(crate) async fn history(&self, topic: &Topic, target: &Target) -> Result<History, Problem> {
        let (topic, target) = (self.names.stored_topic(topic)?, self.names.stored_target(target)?);
        self.answer(self.app.unscoped().admin.topic(&topic).history(&target).await)
    }

    /// See [`crate::quotas::TenantQuotas::admit`].
    fn admit(&self, puts: usize) -> (usize, Result<(), Problem>) {
        match self.names.tenant() {
            Some(tenant) if puts > 0 => self.app.quotas().admit(tenant, puts),
            _ => (puts, Ok(())),
        }
    }

    /// Sends what can be named; the rest has its refusal.
    async fn each<I, S, T>(
        &self,
        topic: &Topic,
        items: &[I],
        named: impl Fn(&I) -> Result<S, Problem>,
        sent: impl AsyncFnOnce(Topic, Vec<S>) -> Vec<Result<T, Error>>,
    ) -> Each<T> {
        let turn = self.step(items.len()).await;
        let topic = match turn.and_then(|()| self.names.stored_topic(topic)) {
            Ok(topic) => topic,
            Err(problem) => return items.iter().map(|_| Err(problem.clone())).collect(),
        };
        let (mut whole, mut refusals) = (Vec::new(), Vec::new());
        for item in items {
            refusals.push(named(item).map(|item| whole.push(item)).err());
        }
        let mut answers = sent(topic, whole).await.into_iter();
        let answer = |refusal: Option<Problem>| match refusal {
            Some(problem) => Err(problem),
            None => self.answer(answers.next().expect("each item has one answer")),
        };
        refusals.into_iter().map(answer).collect()
    }

    fn put_answer(&self, answer: Result<Put, PutError>) -> Result<Put, Problem> {
        let mut put = self.answer(answer.map_err(|error| error.error))?;
        put.reference.group = put.reference.group.and_then(|group| self.names.shown_group(&group));
        Ok(put)
    }

    fn answer<T>(&self, answer: Result<T, Error>) -> Result<T, Problem> {
        answer.map_err(|error| self.problem(error))
    }

    /// A tenant sees neither the prefix of a name, nor the address of a Redis, nor the path of a spool.
    fn problem(&self, error: Error) -> Problem {
        let text = error.to_string();
        let over = self.app.unscoped().spool.as_ref().and_then(|spool| spool.over_share(&error));
        let problem = Problem::from(error);
        let Some(tenant) = self.names.tenant() else { return problem };
        if let Some(over) = over {
            return over;
        }
        match problem.kind() {
            Kind::RedisAway | Kind::SpoolRefused | Kind::Fault => {
                tracing::debug!(%tenant, text, "a call of a tenant failed");
                problem.because("the deployment did not carry out the call")
            }
            _ => {
                let detail = self.names.shown_text(problem.detail());
                problem.because(detail)
            }
        }
    }
}
