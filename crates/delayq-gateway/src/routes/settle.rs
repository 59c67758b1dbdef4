//! Settling leased messages by the receipts of any gateway of the deployment.

use super::answer::{Answer, ItemAnswer, acted, json};
use crate::actions::{Acted, BURY};
use crate::input::Ask;
use crate::problem::{Kind, Problem};
use crate::receipts::Signer;
use crate::state::Scope;
use axum::http::StatusCode;
use axum::response::Response;
use delayq::protocol::{Holder, Receipt, Release};
use delayq::{Error, Settled};
use delayq_service::config::HumanDuration;
use delayq_service::json::settled as json_of;
use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::Error as WordError;
use std::str::FromStr;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SettleItem {
    pub(super) receipt: String,
    #[serde(rename = "do")]
    pub(super) action: SettleVerb,
    pub(super) delay: Option<HumanDuration>,
    pub(super) keep_attempt: Option<bool>,
    pub(super) reason: Option<String>,
    pub(super) lease: Option<HumanDuration>,
}

/// Receipt and action are in the path.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settlement {
    delay: Option<HumanDuration>,
    keep_attempt: Option<bool>,
    reason: Option<String>,
    lease: Option<HumanDuration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SettleVerb {
    Ack,
    Release,
    Bury,
    Extend,
}

/// With places in the request.
#[derive(Default)]
struct Sorted {
    ack: Vec<(usize, Receipt)>,
    release: Vec<(usize, Release)>,
    bury: Vec<(usize, (Receipt, String))>,
    extend: Vec<(usize, (Receipt, Option<Duration>))>,
}

pub(super) async fn settle(ask: Ask) -> Answer {
    let scope = ask.scope.clone();
    let signer = scope.signer().await?;
    let items = ask.items().await?;
    let settled = settled(&scope, &signer, items.parse::<SettleItem>()).await;
    let buried = buried(&settled);
    let answers = settled.into_iter().map(|settled| settled.and_then(|settled| answer(&settled)));
    let (response, _) = items.answer(answers);
    Ok(logged(response, buried))
}

/// In the order of the items; faulty ones have their refusals.
pub(super) async fn settled(
    scope: &Scope,
    signer: &Signer,
    items: Vec<Result<SettleItem, Problem>>,
) -> Vec<Result<Settled, Problem>> {
    let mut answers = Vec::new();
    for step in scope.steps(items) {
        let turn = scope.step(step.len()).await;
        let (mut sorted, before) = (Sorted::default(), answers.len());
        for (place, item) in step.into_iter().enumerate() {
            let read = turn.clone().and(item).and_then(|item| sorted.add(before + place, signer, item));
            answers.push(read.err().map(Err));
        }
        for (place, settled) in sorted.settle(scope.holder()).await {
            answers[place] = Some(settled.map_err(Problem::from));
        }
    }
    answers.into_iter().map(|answer| answer.expect("every item is faulty or settled")).collect()
}

fn buried(settled: &[Result<Settled, Problem>]) -> u64 {
    settled.iter().filter(|settled| matches!(settled, Ok(Settled::Buried))).count() as u64
}

pub(super) async fn one(ask: Ask) -> Answer {
    let (receipt, action) = (ask.name("receipt")?, ask.name("do")?);
    let scope = ask.scope.clone();
    let signer = scope.signer().await?;
    let mut sorted = Sorted::default();
    sorted.add(0, &signer, ask.json_or_default::<Settlement>().await?.of(receipt, action))?;
    let settled = sorted.settle(scope.holder()).await.into_iter().map(|(_, settled)| settled).next();
    let settled = settled.expect("one message has one answer")?;
    let response = json(StatusCode::OK, &answer(&settled)?);
    let was_buried = matches!(settled, Settled::Buried);
    Ok(logged(response, u64::from(was_buried)))
}

/// With the buried messages, for the log of actions.
fn logged(response: Response, buried: u64) -> Response {
    match buried {
        0 => response,
        messages => acted(response, Acted { action: Some(BURY), messages, with: None }),
    }
}

pub(super) fn answer(settled: &Settled) -> ItemAnswer {
    let value = json_of(settled);
    match settled {
        Settled::LeaseLost => Err(Problem::outcome(Kind::LeaseLost, value)),
        Settled::Failed(_) => Err(Problem::outcome(Kind::Fault, value)),
        _ => Ok(value),
    }
}

// === impl Settlement ===

impl Settlement {
    fn of(self, receipt: String, action: SettleVerb) -> SettleItem {
        let Self { delay, keep_attempt, reason, lease } = self;
        SettleItem { receipt, action, delay, keep_attempt, reason, lease }
    }
}

// === impl SettleVerb ===

impl FromStr for SettleVerb {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        Self::deserialize(text.into_deserializer())
    }
}

// === impl SettleItem ===

impl SettleItem {
    /// Refuses a key that the action does not read.
    fn check(&self) -> Result<(), Problem> {
        let unread = [
            ("delay", self.delay.is_some(), &[SettleVerb::Release][..]),
            ("keep_attempt", self.keep_attempt.is_some(), &[SettleVerb::Release]),
            ("reason", self.reason.is_some(), &[SettleVerb::Release, SettleVerb::Bury]),
            ("lease", self.lease.is_some(), &[SettleVerb::Extend]),
        ];
        let odd = unread.into_iter().find(|(_, is_set, read_by)| *is_set && !read_by.contains(&self.action));
        odd.map_or(Ok(()), |(key, ..)| Err(Problem::invalid(key, "has no effect with this action")))
    }
}

// === impl Sorted ===

impl Sorted {
    fn add(&mut self, place: usize, signer: &Signer, item: SettleItem) -> Result<(), Problem> {
        let why = "no gateway of this deployment issued this receipt";
        let receipt = signer.read(&item.receipt).ok_or_else(|| Problem::invalid("receipt", why))?;
        item.check()?;
        let SettleItem { action, delay, keep_attempt, reason, lease, .. } = item;
        let reason = reason.unwrap_or_default();
        match action {
            SettleVerb::Ack => self.ack.push((place, receipt)),
            SettleVerb::Release => {
                let (delay, keep_attempt) = (delay.map(|delay| *delay), keep_attempt.unwrap_or(false));
                self.release.push((place, Release { receipt, delay, keep_attempt, reason }));
            }
            SettleVerb::Bury => self.bury.push((place, (receipt, reason))),
            SettleVerb::Extend => self.extend.push((place, (receipt, lease.map(|lease| *lease)))),
        }
        Ok(())
    }

    async fn settle(mut self, holder: &Holder) -> Vec<(usize, Result<Settled, Error>)> {
        let mut all = Vec::new();
        let (places, acked): (Vec<usize>, Vec<_>) = self.ack.into_iter().unzip();
        all.extend(places.into_iter().zip(holder.ack(&acked).await));
        let (places, released): (Vec<usize>, Vec<_>) = self.release.into_iter().unzip();
        all.extend(places.into_iter().zip(holder.release(&released).await));
        let (places, buried): (Vec<usize>, Vec<_>) = self.bury.into_iter().unzip();
        all.extend(places.into_iter().zip(holder.bury(&buried).await));
        // Extensions by the same lease go together.
        self.extend.sort_by_key(|(_, (_, lease))| *lease);
        for same in self.extend.chunk_by(|(_, (_, one)), (_, (_, other))| one == other) {
            let receipts: Vec<Receipt> = same.iter().map(|(_, (receipt, _))| receipt.clone()).collect();
            let extended = holder.extend(&receipts, same[0].1.1).await;
            all.extend(same.iter().map(|(place, _)| *place).zip(extended));
        }
        all
    }
}
