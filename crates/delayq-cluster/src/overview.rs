//! A fleet, observed from outside or inside: the members and the plan. The pump of a shard is the owner of its epoch in
//! Redis.

use crate::config::ClusterConfig;
use crate::drains::{Drain, Drains};
use crate::error::ClusterError;
use crate::etcd::{Entry, EtcdError, EtcdLink, Range, Status};
use crate::foreign;
use crate::keys::{FleetKeys, MemberId};
use crate::plan::Plan;
use crate::registration::Registration;
use crate::stats::Counters;
use delayq::protocol::{DeploymentId, ShardId};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// A fleet at one revision of etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overview {
    /// etcd's revision of the reading below.
    pub revision: i64,
    /// The identity of the fleet's deployment, as recorded by the first member.
    #[serde(skip)]
    pub deployment: Option<DeploymentId>,
    /// The members, oldest registration first: the first member leads.
    pub members: Vec<MemberInfo>,
    /// The plan; `None` before the first plan.
    pub plan: Option<PlanInfo>,
    /// Shards that the plan gives to no registered member. The count is the plan's, or the most that any member knows.
    pub unplanned: Vec<ShardId>,
    /// Members that an operator keeps without shards, registered or not.
    pub drains: Vec<DrainInfo>,
    /// Registrations and drains that cannot be read, by key.
    pub unreadable: Vec<String>,
}

/// A member of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberInfo {
    /// This life of the member.
    pub id: MemberId,
    /// The member's name.
    pub name: String,
    /// The version of the member's program.
    pub version: String,
    /// Address of the member's admin endpoint.
    pub address: String,
    /// True while the member gives its shards away, because its process ends.
    pub draining: bool,
    /// True while an operator keeps the member without shards.
    pub drained: bool,
    /// Number of shards out of the member's reach now: the plan gives these shards to members that reach them.
    pub hindered: usize,
    /// Time of registration, by the member's own clock: Unix time in milliseconds.
    pub since_ms: u64,
    /// True if the member leads.
    pub leader: bool,
    /// Number of shards that the plan gives the member.
    pub planned: usize,
}

/// The plan, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanInfo {
    /// The plan's version.
    pub version: u64,
    /// The leader that wrote the plan.
    pub by: MemberId,
    /// Number of shards that the plan covers.
    pub shards: usize,
    /// Number of shards that no member can take.
    pub without_owner: usize,
}

/// A member that an operator keeps without shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DrainInfo {
    /// The member's name.
    pub name: String,
    /// Start of the drain, by the operator's clock: Unix time in milliseconds.
    pub since_ms: u64,
    /// The operator's reason; may be empty.
    pub reason: String,
    /// True if a member of this name is registered.
    pub registered: bool,
}

/// The answer of one etcd endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndpointHealth {
    /// The endpoint.
    pub endpoint: String,
    /// etcd's version; `None` if the endpoint did not answer.
    pub version: Option<String>,
    /// True if the endpoint knows a leader.
    pub has_leader: bool,
    /// The alarms that any member of etcd raised, by name. With any alarm, such as `NOSPACE`, etcd takes no writes.
    pub alarms: Vec<String>,
    /// The reason for a missing answer.
    pub error: Option<String>,
}

/// Observes a fleet as a non-member.
#[derive(Clone)]
pub struct Observer {
    link: EtcdLink,
    keys: FleetKeys,
}

/// All parts are of one revision.
pub(crate) struct Read {
    revision: i64,
    members: Vec<Entry>,
    plan: Vec<Entry>,
    drains: Vec<Entry>,
    deployment: Vec<Entry>,
}

// === impl Overview ===

impl Overview {
    /// The other members that could take the shards of the member of this name.
    pub fn heirs(&self, name: &str) -> impl Iterator<Item = &MemberInfo> {
        self.members.iter().filter(move |member| member.name != name && member.can_take())
    }
}

// === impl MemberInfo ===

impl MemberInfo {
    /// Returns true if the plan may give the member any shard: the member is not ending, not drained, and reaches every
    /// shard.
    pub const fn can_take(&self) -> bool {
        !(self.draining || self.drained || self.hindered > 0)
    }
}

// === impl Read ===

impl Read {
    pub(crate) fn drains(&self) -> Option<&Entry> {
        self.drains.first()
    }
}

// === impl Observer ===

impl Observer {
    /// Creates an observer of the fleet that this configuration would join. Connects with the first question.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn new(config: &ClusterConfig) -> Result<Self, ClusterError> {
        config.check()?;
        let link = EtcdLink::new(config.etcd.clone(), Arc::new(Counters::default()))?;
        Ok(Self { link, keys: FleetKeys::of(config) })
    }

    /// Reads the fleet's current state in one request. Tries every endpoint once.
    ///
    /// # Errors
    /// etcd unreachable (try again later) or refusing, or a plan that this program cannot read.
    pub async fn overview(&self) -> Result<Overview, ClusterError> {
        self.compose(&self.read().await?)
    }

    pub(crate) const fn keys(&self) -> &FleetKeys {
        &self.keys
    }

    pub(crate) async fn read(&self) -> Result<Read, ClusterError> {
        let keys = &self.keys;
        let singles = [keys.plan(), keys.drains(), keys.deployment()].map(Range::Key);
        let ranges: Vec<Range> = [Range::Prefix(keys.members())].into_iter().chain(singles).collect();
        let (revision, read) = self.ask(|link| link.read(&ranges)).await?;
        let mut read = read.into_iter();
        let mut next = || read.next().expect("an answer for each range");
        Ok(Read { revision, members: next(), plan: next(), drains: next(), deployment: next() })
    }

    /// Sends one request, which is safe to repeat, to each endpoint in turn until an endpoint answers.
    pub(crate) async fn ask<'l, T, F>(
        &'l self,
        request: impl Fn(&'l EtcdLink) -> F,
    ) -> Result<T, ClusterError>
    where
        F: Future<Output = Result<T, EtcdError>> + Send,
    {
        let started = Instant::now();
        let mut tried = 1;
        loop {
            match request(&self.link).await {
                Ok(answer) => return Ok(answer),
                Err(EtcdError::Silent(_)) if tried < self.link.config().endpoints.len() => tried += 1,
                Err(error) => return Err(error.to_error(self.link.config(), started.elapsed())),
            }
        }
    }

    /// Asks each etcd endpoint for its status, one after the other.
    pub async fn health(&self) -> Vec<EndpointHealth> {
        let health = |(endpoint, status): (String, Result<Status, EtcdError>)| match status {
            Ok(Status { version, has_leader, alarms }) => {
                EndpointHealth { endpoint, version: Some(version), has_leader, alarms, error: None }
            }
            Err(error) => {
                let (alarms, error) = (Vec::new(), Some(error.to_string()));
                EndpointHealth { endpoint, version: None, has_leader: false, alarms, error }
            }
        };
        self.link.statuses().await.into_iter().map(health).collect()
    }

    pub(crate) fn compose(&self, read: &Read) -> Result<Overview, ClusterError> {
        let Read { revision, members, plan, drains, deployment } = read;
        let deployment = deployment.first().and_then(foreign::read);
        let mut unreadable = Vec::new();
        let plan = plan.first().map(|entry| self.read_plan(entry)).transpose()?;
        let mut read: Vec<(i64, MemberId, Registration)> = members
            .iter()
            .filter_map(|entry| note(entry, self.read_member(entry), &mut unreadable))
            .collect();
        read.sort_by_key(|(rank, ..)| *rank);
        let count = plan.as_ref().map_or_else(
            || read.iter().map(|(_, _, r)| usize::from(r.shards.get())).max().unwrap_or(0),
            Plan::shard_count,
        );
        let drains = Drains::read(drains.first()).unwrap_or_else(|_| {
            unreadable.push(self.keys.drains());
            Drains::default()
        });
        let members = member_infos(read, plan.as_ref(), &drains);
        let drains = drain_infos(&drains, &members);
        let live: BTreeSet<&MemberId> = members.iter().map(|member| &member.id).collect();
        let owner = |shard| plan.as_ref().and_then(|plan| plan.owner_of(shard));
        let all = (0..count).filter_map(|n| u16::try_from(n).ok()).map(ShardId::new);
        let unplanned =
            all.filter(|&shard| owner(shard).is_none_or(|owner| !live.contains(&owner.id))).collect();
        let (revision, plan) = (*revision, plan.as_ref().map(plan_info));
        Ok(Overview { revision, deployment, members, plan, unplanned, drains, unreadable })
    }

    fn read_plan(&self, entry: &Entry) -> Result<Plan, ClusterError> {
        Plan::from_json(&entry.value)
            .map_err(|error| ClusterError::Document { key: self.keys.plan(), cause: error.to_string() })
    }

    fn read_member(&self, entry: &Entry) -> Option<(i64, MemberId, Registration)> {
        // A key without a lease was not written by a member.
        let id = self.keys.member_of(&entry.key).filter(|_| entry.lease != 0)?;
        Some((entry.create_revision, id, serde_json::from_slice(&entry.value).ok()?))
    }
}

fn note<T>(entry: &Entry, read: Option<T>, unreadable: &mut Vec<String>) -> Option<T> {
    if read.is_none() {
        unreadable.push(String::from_utf8_lossy(&entry.key).into_owned());
    }
    read
}

fn member_infos(
    read: Vec<(i64, MemberId, Registration)>,
    plan: Option<&Plan>,
    drains: &Drains,
) -> Vec<MemberInfo> {
    let info = |(place, (_, id, registration)): (usize, (i64, MemberId, Registration))| MemberInfo {
        planned: plan.map_or(0, |plan| plan.shards_of(&id).len()),
        leader: place == 0,
        drained: drains.holds(&registration.name),
        name: registration.name,
        version: registration.version,
        address: registration.address,
        draining: registration.draining,
        hindered: registration.hindered.shards().count(),
        since_ms: registration.since_ms,
        id,
    };
    read.into_iter().enumerate().map(info).collect()
}

fn drain_infos(drains: &Drains, members: &[MemberInfo]) -> Vec<DrainInfo> {
    let info = |(name, drain): (&String, &Drain)| DrainInfo {
        name: name.clone(),
        since_ms: drain.since_ms,
        reason: drain.reason.clone(),
        registered: members.iter().any(|member| member.name == *name),
    };
    drains.iter().map(info).collect()
}

fn plan_info(plan: &Plan) -> PlanInfo {
    let without_owner = plan.places().iter().filter(|place| place.is_none()).count();
    PlanInfo { version: plan.version, by: plan.by.clone(), shards: plan.shard_count(), without_owner }
}
