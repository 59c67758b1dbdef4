//! The roles of programs in a deployment, and the least permissions of their Redis users.
//!
//! The commands are read out of the scripts of the role, so the list always matches the commands that run.

use delayq_core::durability::Durability;
use delayq_core::id::Namespace;
use delayq_core::script::{Scripts, Verb};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The role of a program in a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Puts, cancels and reschedules messages.
    Producer,
    /// Reserves and settles messages.
    Consumer,
    /// Reserves, settles and pumps messages: a consumer that pumps.
    Worker,
    /// Pumps due messages: `delayq-timer`.
    Timer,
    /// Delivers ready messages to brokers: `delayq-forwarder`.
    Forwarder,
    /// Resubmits spools: `delayq-compensator`.
    Compensator,
    /// Serves producers, consumers and topic operators by HTTP: `delayq-gateway`.
    Gateway,
    /// Everything: the command `delayq`.
    Admin,
}

/// The scripts of every client: read the layout, and follow a growth.
const EVERY: &[Verb] = &[Verb::Layout, Verb::Grow];

const PRODUCER: &[Verb] = &[
    Verb::Put,
    Verb::Cancel,
    Verb::CancelGroup,
    Verb::Reschedule,
    Verb::ShiftGroup,
    Verb::Describe,
    Verb::Dictionary,
];

/// An ack may put the next message.
const CONSUMER: &[Verb] = &[
    Verb::Reserve,
    Verb::Extend,
    Verb::Ack,
    Verb::Put,
    Verb::Release,
    Verb::Bury,
    Verb::Overview,
    Verb::Dictionary,
];

/// Scripts to own and pump shards.
const PUMP: &[Verb] = &[Verb::Identify, Verb::Claim, Verb::Pump, Verb::Hold];

/// Scripts on behalf of clients that hold neither receipts nor limits.
const GATEWAY: &[Verb] = &[Verb::Finish, Verb::Meter, Verb::Operate, Verb::Settled, Verb::Swap];

/// Scripts to inspect messages and to set up topics.
const OPERATOR: &[Verb] = &[
    Verb::Configure,
    Verb::Count,
    Verb::Forget,
    Verb::Histogram,
    Verb::History,
    Verb::List,
    Verb::ListGroup,
    Verb::PauseGroup,
    Verb::PausedGroups,
    Verb::Peek,
    Verb::Promote,
    Verb::Replay,
];

/// Scripts of a timer besides pumping.
const TIMER: &[Verb] = &[
    Verb::ForgetQuiet,
    Verb::Overview,
    Verb::Count,
    Verb::Survey,
    Verb::Audit,
    Verb::AuditIndex,
    Verb::Repair,
    Verb::Recount,
    Verb::Purge,
];

/// The commands of each client outside of scripts: to connect, to check the server, and to load scripts. ROLE is for
/// servers that sentinels name, CLUSTER for the nodes of a cluster.
const OF_A_CONNECTION: [&str; 9] =
    ["hello", "auth", "info", "role", "cluster|info", "cluster|slots", "time", "evalsha", "script|load"];

/// The commands to follow wake-ups, on a connection that may be idle.
const OF_A_LISTENER: [&str; 3] = ["ping", "ssubscribe", "sunsubscribe"];

/// The command to sweep, outside of scripts: walks over all keys.
const OF_A_SWEEPER: [&str; 1] = ["scan"];

/// The command to count listeners, outside of scripts: an admin and a gateway report the state of the deployment, and a
/// forwarder checks for workers on the forwarded topics.
const OF_WHO_ASKS: [&str; 1] = ["pubsub|shardnumsub"];

/// The command to page through the log of actions, the newest first, outside of scripts.
const OF_THE_LOG: [&str; 1] = ["xrevrange"];

/// The commands to keep sessions of people, outside of scripts.
const OF_SESSIONS: [&str; 3] = ["getex", "set", "unlink"];

/// The commands that scripts with the flag `no-writes` may run; the source also includes functions with other commands.
const READS: [&str; 18] = [
    "TIME",
    "TYPE",
    "EXISTS",
    "MGET",
    "GETRANGE",
    "HGET",
    "HMGET",
    "HGETALL",
    "HSCAN",
    "LRANGE",
    "LLEN",
    "ZCARD",
    "ZCOUNT",
    "ZSCORE",
    "ZMSCORE",
    "ZRANGE",
    "ZRANGEBYSCORE",
    "XRANGE",
];

// === impl Role ===

impl Role {
    /// Every role.
    pub const ALL: [Self; 8] = [
        Self::Producer,
        Self::Consumer,
        Self::Worker,
        Self::Timer,
        Self::Forwarder,
        Self::Compensator,
        Self::Gateway,
        Self::Admin,
    ];

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::Worker => "worker",
            Self::Timer => "timer",
            Self::Forwarder => "forwarder",
            Self::Compensator => "compensator",
            Self::Gateway => "gateway",
            Self::Admin => "admin",
        }
    }

    /// Returns the commands that the role's user needs, sorted, with the names that an ACL uses.
    pub fn commands(self) -> BTreeSet<String> {
        let scripts = Scripts::published();
        let mut commands: BTreeSet<String> = OF_A_CONNECTION.into_iter().map(str::to_owned).collect();
        for verb in EVERY.iter().copied().chain(self.verbs()) {
            commands.extend(commands_of(&scripts.get(verb).source));
        }
        let listener: &[&str] = if self.listens() { &OF_A_LISTENER } else { &[] };
        let sweeper: &[&str] = if self.sweeps() { &OF_A_SWEEPER } else { &[] };
        let asks: &[&str] = if self.asks_who_listens() { &OF_WHO_ASKS } else { &[] };
        let log: &[&str] = if self.reads_the_log() { &OF_THE_LOG } else { &[] };
        let sessions: &[&str] = if self.keeps_sessions() { &OF_SESSIONS } else { &[] };
        let outside = listener.iter().chain(sweeper).chain(asks).chain(log).chain(sessions);
        commands.extend(outside.map(|&command| command.to_owned()));
        commands
    }

    /// Returns the rule of the role's user as a line of an ACL file; `>PASSWORD` stands for the password.
    pub fn rule(self, user: &str, namespace: &Namespace) -> String {
        let commands: Vec<String> =
            self.commands().into_iter().map(|command| format!("+{command}")).collect();
        format!("user {user} on >PASSWORD ~{{{namespace}:* &{{{namespace}:* -@all {}", commands.join(" "))
    }

    /// Returns the additional command of the role for topics with this durability. [`Self::commands`] leaves this
    /// command out, because no other deployment needs the command, and a Redis before 7.2 does not know WAITAOF.
    pub const fn waits_by(self, durability: Durability) -> Option<&'static str> {
        match (self, durability) {
            (Self::Consumer | Self::Worker | Self::Timer | Self::Forwarder, _) | (_, Durability::Memory) => {
                None
            }
            (_, Durability::Disk) => Some("waitaof"),
            (_, Durability::Replicas(_)) => Some("wait"),
        }
    }

    pub(crate) const fn listens(self) -> bool {
        matches!(
            self,
            Self::Consumer | Self::Worker | Self::Timer | Self::Forwarder | Self::Gateway | Self::Admin
        )
    }

    pub(crate) const fn asks_who_listens(self) -> bool {
        matches!(self, Self::Forwarder | Self::Gateway | Self::Admin)
    }

    pub(crate) const fn reads_the_log(self) -> bool {
        matches!(self, Self::Gateway | Self::Admin)
    }

    pub(crate) const fn keeps_sessions(self) -> bool {
        matches!(self, Self::Gateway | Self::Admin)
    }

    pub(crate) const fn sweeps(self) -> bool {
        matches!(self, Self::Timer | Self::Admin)
    }

    fn verbs(self) -> Vec<Verb> {
        match self {
            Self::Producer => PRODUCER.to_vec(),
            Self::Consumer => CONSUMER.to_vec(),
            Self::Worker => [CONSUMER, PUMP].concat(),
            Self::Timer => [PUMP, TIMER].concat(),
            // A forwarder counts messages without a route.
            Self::Forwarder => [CONSUMER, &[Verb::Count]].concat(),
            // A compensator checks that Redis takes writes again, and reports recorded writes whose answers the sources
            // have noted.
            Self::Compensator => [PRODUCER, &[Verb::Overview, Verb::Settled]].concat(),
            Self::Gateway => [PRODUCER, CONSUMER, OPERATOR, GATEWAY, &[Verb::Purge]].concat(),
            Self::Admin => Verb::ALL.to_vec(),
        }
    }
}

/// In lower case.
fn commands_of(source: &str) -> BTreeSet<String> {
    let only_reads = source.starts_with("#!lua flags=no-writes");
    let code = source.lines().filter(|line| !line.trim_start().starts_with("--"));
    let named = code.flat_map(|line| line.split("call('").skip(1)).filter_map(|rest| rest.split('\'').next());
    let is_command = |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase());
    let runs = named.filter(is_command).filter(|name| !only_reads || READS.contains(name));
    runs.map(str::to_lowercase).collect()
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|role| role.name() == text)
            .ok_or_else(|| format!("write one of {}", names()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admin_may_do_what_any_role_may_and_probe_tries_all_of_it() {
        let admin = Role::Admin.commands();
        for role in Role::ALL {
            assert!(role.commands().is_subset(&admin), "{role}");
            assert_eq!(role.name().parse(), Ok(role));
        }
        let outside = [&OF_A_CONNECTION[..], &OF_A_LISTENER, &OF_A_SWEEPER, &OF_WHO_ASKS].concat();
        let probed = Verb::Probe.file().split("try('").skip(1).filter_map(|rest| rest.split('\'').next());
        let probed: BTreeSet<String> = probed.map(str::to_lowercase).collect();
        let in_scripts: BTreeSet<String> =
            admin.into_iter().filter(|command| !outside.contains(&command.as_str())).collect();
        assert_eq!(&in_scripts | &BTreeSet::from(["time".to_owned()]), probed);
    }

    #[test]
    fn a_role_may_not_do_what_only_others_do() {
        assert!(!Role::Producer.commands().contains("ssubscribe"));
        for role in Role::ALL {
            let is_admin = role == Role::Admin;
            for command in OF_WHO_ASKS {
                let asks = is_admin || [Role::Forwarder, Role::Gateway].contains(&role);
                assert_eq!(role.commands().contains(command), asks, "{role}: {command}");
            }
            for command in OF_A_SWEEPER {
                assert_eq!(
                    role.commands().contains(command),
                    is_admin || role == Role::Timer,
                    "{role}: {command}"
                );
            }
        }
    }

    #[test]
    fn comments_and_what_a_reader_cannot_run_are_no_commands() {
        let script = "#!lua\n-- call('KEYS')\nredis.call('GET', x) pcall('HMGET', y)\nbitpcall('x')\n";
        assert_eq!(commands_of(script), BTreeSet::from(["get".to_owned(), "hmget".to_owned()]));
        let reader = "#!lua flags=no-writes\nredis.call('ZADD', x) redis.call('ZCARD', x)\n";
        assert_eq!(commands_of(reader), BTreeSet::from(["zcard".to_owned()]));
    }
}
