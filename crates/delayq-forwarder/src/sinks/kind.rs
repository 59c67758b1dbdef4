//! The kinds of sinks, by the words of the configuration.

/// The kinds of sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `file`
    File,
    /// `stdout`
    Stdout,
    /// `redis-stream`
    RedisStream,
    /// `redis-list`
    RedisList,
    /// `webhook`
    Webhook,
    /// `rabbitmq`
    Rabbitmq,
    /// `nats`
    Nats,
    /// `kafka`
    Kafka,
}

// === impl Kind ===

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::File,
        Self::Stdout,
        Self::RedisStream,
        Self::RedisList,
        Self::Webhook,
        Self::Rabbitmq,
        Self::Nats,
        Self::Kafka,
    ];

    /// Its word in the configuration.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Stdout => "stdout",
            Self::RedisStream => "redis-stream",
            Self::RedisList => "redis-list",
            Self::Webhook => "webhook",
            Self::Rabbitmq => "rabbitmq",
            Self::Nats => "nats",
            Self::Kafka => "kafka",
        }
    }

    /// The destination of a route that names none.
    #[must_use]
    pub const fn default_to(self) -> &'static str {
        match self {
            Self::File => "deliveries.ndjson",
            Self::Stdout => "-",
            Self::Webhook => "",
            Self::RedisStream | Self::RedisList | Self::Rabbitmq | Self::Nats | Self::Kafka => "{topic}",
        }
    }

    /// What the headers of CloudEvents begin with, as the binding of the kind's protocol says.
    #[must_use]
    pub const fn event_prefix(self) -> &'static str {
        match self {
            Self::Kafka => "ce_",
            Self::Rabbitmq => "cloudEvents:",
            _ => "ce-",
        }
    }

    pub(crate) fn list() -> String {
        Self::ALL.map(Self::word).join(", ")
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}
