//! The tenants of the deployment, with the tokens that a gateway made for them: kept in Redis, read by every gateway.
//!
//! ```text
//! acme          {"puts_per_second":…}              the quotas
//! acme/ID       {"name":…,"hash":…,"rights":[…]}   a token, by the start of its hash
//! acme/ID/end   1800000000000                      the end of the token after its rotation, in ms
//! ```
//! Every gateway looks twice a second if anything has changed, so a revoked token ends everywhere within a second. Tenants that
//! could not be read for [`STALE`] admit nobody.

mod notes;

pub(crate) use notes::{Quotas, TenantNotes, TokenNote};

use crate::problem::{Kind, Problem};
use crate::receipts::random;
use crate::tenant::Tenant;
use crate::token::{Hash, Token};
use delayq::{Admin, Error, Fate, UnixMillis};
use delayq_service::{Shutdown, host_now};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long tokens are known without an answer of Redis.
const STALE: Duration = Duration::from_secs(5);
/// Characters of the hash that name a token.
const ID: usize = 16;

/// Clones share the state.
#[derive(Clone, Debug)]
pub(crate) struct Tenants {
    admin: Admin,
    table: Arc<RwLock<TenantTable>>,
    reading: Arc<Mutex<()>>,
    /// Told whenever a token may have ended.
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct TenantTable {
    version: Option<String>,
    /// `None`: never.
    read_at: Option<Instant>,
    tokens: HashMap<Hash, Token>,
    /// `Err`: why they cannot be read.
    quotas: HashMap<Tenant, Result<Quotas, String>>,
}

// === impl Tenants ===

impl Tenants {
    pub(crate) fn new(admin: Admin) -> Self {
        Self { admin, table: Arc::default(), reading: Arc::default(), changes: watch::Sender::new(()) }
    }

    /// `None`: no token has this hash, or the token has ended.
    ///
    /// # Errors
    /// The tenants cannot be read.
    pub(crate) async fn token(&self, hash: &Hash) -> Result<Option<Token>, Problem> {
        if !self.is_fresh() {
            self.look().await.map_err(unread_tokens)?;
        }
        Ok(self.token_in_table(hash))
    }

    /// As [`Self::token`], without asking Redis.
    ///
    /// # Errors
    /// The tenants could not be read for too long.
    pub(crate) fn token_as_read(&self, hash: &Hash) -> Result<Option<Token>, Problem> {
        match self.is_fresh() {
            true => Ok(self.token_in_table(hash)),
            false => Err(unread_tokens("Redis does not answer")),
        }
    }

    fn token_in_table(&self, hash: &Hash) -> Option<Token> {
        self.table().tokens.get(hash).filter(|token| !token.has_ended()).cloned()
    }

    /// Sees every change of tokens after this call, and that they cannot be read any more.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(crate) fn changed(&self) {
        self.changes.send_replace(());
    }

    /// Reads the tenants if this gateway never has: a tenant with a token of the file has quotas as well.
    ///
    /// # Errors
    /// The tenants cannot be read.
    pub(crate) async fn must_be_read(&self) -> Result<(), Problem> {
        if self.table().read_at.is_some() {
            return Ok(());
        }
        self.look().await.map_err(unread)
    }

    /// As they were last read.
    ///
    /// # Errors
    /// They were never read, or cannot be understood: without the quotas, nobody knows what the tenant may do.
    pub(crate) fn quotas(&self, tenant: &Tenant) -> Result<Quotas, Problem> {
        let table = self.table();
        if table.read_at.is_none() {
            return Err(unread("they were never read"));
        }
        match table.quotas.get(tenant) {
            None => Ok(Quotas::default()),
            Some(Ok(quotas)) => Ok(*quotas),
            Some(Err(why)) => Err(unread(format_args!("{why}; set them again, or use a newer gateway"))),
        }
    }

    pub(crate) async fn follow(&self, shutdown: Shutdown) {
        loop {
            if let Err(error) = self.look().await {
                tracing::debug!(%error, "cannot read the tenants");
                if !self.is_fresh() {
                    self.changed();
                }
            }
            if shutdown.or(tokio::time::sleep(LOOK_EVERY)).await.is_none() {
                return;
            }
        }
    }

    /// Every tenant, as Redis has it now.
    pub(crate) async fn all(&self) -> Result<BTreeMap<Tenant, TenantNotes>, Error> {
        Ok(notes::tenants(&self.admin.gateways().tenants().await?.1))
    }

    pub(crate) async fn of(&self, tenant: &Tenant) -> Result<TenantNotes, Error> {
        Ok(self.all().await?.remove(tenant).unwrap_or_default())
    }

    pub(crate) async fn set_quotas(&self, tenant: &Tenant, quotas: Quotas) -> Result<(), Error> {
        self.change(vec![(tenant.name().to_owned(), Some(notes::text(&quotas)))]).await
    }

    /// Removes the quotas and every token of the tenant.
    pub(crate) async fn remove(&self, tenant: &Tenant) -> Result<(), Error> {
        let (_, texts) = self.admin.gateways().tenants().await?;
        let names = texts.into_keys().filter(|name| notes::is_of(tenant, name)).map(|name| (name, None));
        self.change([(tenant.name().to_owned(), None)].into_iter().chain(names).collect()).await
    }

    /// Returns the id of the new token, and its text, which nobody keeps.
    pub(crate) async fn add(&self, tenant: &Tenant, note: TokenNote) -> Result<(String, String), Error> {
        self.add_and(tenant, note, None).await
    }

    /// As [`Self::add`], for a token like the one with the note; the old one ends at `until`.
    pub(crate) async fn rotate(
        &self,
        tenant: &Tenant,
        (id, old): (&str, &TokenNote),
        until: UnixMillis,
    ) -> Result<(String, String), Error> {
        let end_ms = old.until_ms.map_or(until.get(), |end| end.min(until.get()));
        let note = TokenNote { made_ms: host_now().get(), ..old.clone() };
        self.add_and(tenant, note, Some((notes::name_of_end(tenant, id), Some(end_ms.to_string())))).await
    }

    pub(crate) async fn revoke(&self, tenant: &Tenant, id: &str) -> Result<(), Error> {
        self.change(vec![(notes::name(tenant, id), None), (notes::name_of_end(tenant, id), None)]).await
    }

    async fn add_and(
        &self,
        tenant: &Tenant,
        note: TokenNote,
        other: Option<(String, Option<String>)>,
    ) -> Result<(String, String), Error> {
        let token = random()?;
        let hash = hex::encode(Sha256::digest(&token));
        let (id, note) = (hash[..ID].to_owned(), TokenNote { hash, ..note });
        let new = (notes::name(tenant, &id), Some(notes::text(&note)));
        self.change([new].into_iter().chain(other).collect()).await?;
        Ok((id, token))
    }

    /// This gateway knows the change at once.
    async fn change(&self, changes: Vec<(String, Option<String>)>) -> Result<(), Error> {
        self.admin.gateways().change_tenants(&random()?, &changes).await?;
        self.look().await
    }

    /// Reads the tenants if anything has changed.
    async fn look(&self) -> Result<(), Error> {
        let _one = self.reading.lock().await;
        let asked = Instant::now();
        let version = self.admin.gateways().tenants_version().await?;
        let known = {
            let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
            let known = table.read_at.is_some() && table.version == version;
            table.read_at = if known { Some(asked) } else { table.read_at };
            known
        };
        if known {
            return Ok(());
        }
        let (version, texts) = self.admin.gateways().tenants().await?;
        let tenants = notes::tenants(&texts);
        for (tenant, why) in
            tenants.iter().filter_map(|(tenant, kept)| Some((tenant, kept.quotas.as_ref().err()?)))
        {
            tracing::error!(%tenant, why, "the quotas of a tenant cannot be read: its puts and bodies are refused");
        }
        let table = TenantTable { version, read_at: Some(asked), ..TenantTable::of(tenants) };
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
        self.changed();
        Ok(())
    }

    fn is_fresh(&self) -> bool {
        self.table().read_at.is_some_and(|at| at.elapsed() < STALE)
    }

    fn table(&self) -> RwLockReadGuard<'_, TenantTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unread_tokens(why: impl std::fmt::Display) -> Problem {
    let why = format!("the tokens of tenants cannot be read: {why}");
    Problem::new(Kind::RedisAway, why).fate(Fate::NotApplied)
}

fn unread(why: impl std::fmt::Display) -> Problem {
    Problem::new(Kind::UnreadQuotas, why.to_string()).fate(Fate::NotApplied)
}

// === impl TenantTable ===

impl TenantTable {
    fn of(all: BTreeMap<Tenant, TenantNotes>) -> Self {
        let mut table = Self::default();
        for (tenant, kept) in all {
            let tokens = kept.tokens.values().filter_map(|note| note.token(&tenant));
            table.tokens.extend(tokens);
            table.quotas.insert(tenant, kept.quotas);
        }
        table
    }
}

#[cfg(test)]
mod tests;
