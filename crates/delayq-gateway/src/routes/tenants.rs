//! Tenants: their quotas and tokens. A token is shown once, when it is made.

use super::answer::{Answer, counted, json, nothing};
use crate::input::Ask;
use crate::problem::{Kind, Problem};
use crate::rights::{Right, Rights};
use crate::sessions::Caller;
use crate::state::App;
use crate::tenant::Tenant;
use crate::tenants::{Quotas, TenantNotes, TokenNote};
use axum::extract::State;
use axum::http::StatusCode;
use delayq::UnixMillis;
use delayq_service::config::HumanDuration;
use delayq_service::host_now;
use delayq_service::json::add_time;
use delayq_service::when::moment;
use serde::Deserialize;
use serde_json::{Value, json as value};
use std::time::Duration;

const MAX_NAME: usize = 64;
/// How long a rotated token stays valid unless the request says otherwise.
const OVERLAP: Duration = Duration::from_hours(1);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewToken {
    name: String,
    /// Without any, those of the caller.
    #[serde(default)]
    rights: Vec<String>,
    #[serde(default)]
    until: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rotation {
    #[serde(default)]
    overlap: Option<HumanDuration>,
}

pub(super) async fn list(State(app): State<App>) -> Answer {
    let all = app.tokens.tenants().all().await?;
    let tenants: Value = all.iter().map(|(tenant, kept)| shown(tenant, kept)).collect();
    Ok(json(StatusCode::OK, &value!({ "tenants": tenants })))
}

pub(super) async fn set(State(app): State<App>, ask: Ask) -> Answer {
    let tenant: Tenant = ask.name("tenant")?;
    let quotas: Quotas = ask.json().await?;
    app.tokens.tenants().set_quotas(&tenant, quotas).await?;
    let kept = app.tokens.tenants().of(&tenant).await?;
    let answer = json(StatusCode::OK, &shown(&tenant, &kept));
    Ok(counted((answer, 0), Some(value!(quotas))))
}

/// Its topics stay.
pub(super) async fn delete(State(app): State<App>, ask: Ask) -> Answer {
    app.tokens.tenants().remove(&ask.name("tenant")?).await?;
    Ok(nothing())
}

pub(super) async fn tokens(State(app): State<App>, ask: Ask) -> Answer {
    let kept = app.tokens.tenants().of(&ask.name("tenant")?).await?;
    let tokens: Value = kept.tokens.iter().map(|(id, note)| shown_token(id, note)).collect();
    Ok(json(StatusCode::OK, &value!({ "tokens": tokens })))
}

pub(super) async fn add_token(State(app): State<App>, ask: Ask) -> Answer {
    let tenant: Tenant = ask.name("tenant")?;
    let caller = ask.caller.clone();
    let note = ask.json::<NewToken>().await?.note(&caller)?;
    let (id, token) = app.tokens.tenants().add(&tenant, note.clone()).await?;
    Ok(made(&id, &note, &token))
}

pub(super) async fn rotate_token(State(app): State<App>, ask: Ask) -> Answer {
    let (tenant, id): (Tenant, String) = (ask.name("tenant")?, ask.name("token")?);
    let caller = ask.caller.clone();
    let rotation = ask.json_or_default::<Rotation>().await?;
    let overlap = rotation.overlap.map_or(OVERLAP, |overlap| *overlap);
    let old = existing(&app, &tenant, &id).await?;
    within(old.rights(), &caller)?;
    let until = u64::try_from(overlap.as_millis()).ok().and_then(|ms| host_now().get().checked_add(ms));
    let until = until.map(UnixMillis::new).filter(|until| *until <= UnixMillis::MAX);
    let until = until.ok_or_else(|| Problem::invalid("overlap", "too long"))?;
    let (id, token) = app.tokens.tenants().rotate(&tenant, (&id, &old), until).await?;
    Ok(made(&id, &old, &token))
}

pub(super) async fn revoke_token(State(app): State<App>, ask: Ask) -> Answer {
    let (tenant, id): (Tenant, String) = (ask.name("tenant")?, ask.name("token")?);
    existing(&app, &tenant, &id).await?;
    app.tokens.tenants().revoke(&tenant, &id).await?;
    Ok(nothing())
}

async fn existing(app: &App, tenant: &Tenant, id: &str) -> Result<TokenNote, Problem> {
    let unknown = || Problem::new(Kind::NoTenantToken, format!("{tenant} has no token {id}"));
    app.tokens.tenants().of(tenant).await?.tokens.remove(id).ok_or_else(unknown)
}

/// Nobody makes a token that can do more than the maker.
fn within(rights: Rights, caller: &Caller) -> Result<(), Problem> {
    Right::ALL
        .into_iter()
        .filter(|right| rights.has(*right))
        .try_for_each(|right| caller.must(right, "the new token"))
}

fn made(id: &str, note: &TokenNote, token: &str) -> axum::response::Response {
    let mut value = shown_token(id, note);
    let with = value.clone();
    value["token"] = token.into();
    counted((json(StatusCode::CREATED, &value), 0), Some(with))
}

fn shown(tenant: &Tenant, kept: &TenantNotes) -> Value {
    let Quotas { puts_per_second, pending, bytes } = kept.quotas.clone().unwrap_or_default();
    value!({
        "tenant": tenant.name(), "tokens": kept.tokens.len(),
        "puts_per_second": puts_per_second, "pending": pending, "bytes": bytes,
        "quotas_unreadable": kept.quotas.as_ref().err(),
    })
}

fn shown_token(id: &str, note: &TokenNote) -> Value {
    let mut value = value!({ "id": id, "name": note.name, "rights": note.rights().words() });
    add_time(&mut value, "until", note.until_ms.map(UnixMillis::new));
    add_time(&mut value, "made", Some(UnixMillis::new(note.made_ms)));
    value
}

// === impl NewToken ===

impl NewToken {
    fn note(self, caller: &Caller) -> Result<TokenNote, Problem> {
        let Self { name, rights, until } = self;
        if !(1..=MAX_NAME).contains(&name.len()) || name.chars().any(|c| c.is_control() || c == ' ') {
            return Err(Problem::invalid("name", "must be 1 to 64 bytes without spaces"));
        }
        if let Some(odd) = rights.iter().find(|word| word.parse::<Right>().is_err()) {
            let known = Right::ALL.map(Right::word).join(", ");
            return Err(Problem::invalid("rights", format_args!("unknown right {odd:?}; known: {known}")));
        }
        let until =
            until.map(|text| moment(&text)).transpose().map_err(|why| Problem::invalid("until", why))?;
        let caller_has = || caller.rights.words().into_iter().map(str::to_owned).collect();
        let rights = if rights.is_empty() { caller_has() } else { rights };
        let until_ms = until.map(UnixMillis::get);
        let note = TokenNote { name, hash: String::new(), rights, until_ms, made_ms: host_now().get() };
        within(note.rights(), caller)?;
        Ok(note)
    }
}
