//! The kinds of intakes: one table, which gives the configuration its sections, and the intake its looks and constructors.
//!
//! The configuration of every kind is always compiled, so that every build validates it alike; the client of a kind needs its
//! cargo feature.

/// Expands another macro with the table.
macro_rules! intake_kinds {
    ($expand:ident) => {
        $expand! {
            /// A topic of Kafka.
            "kafka", kafka: KafkaIntakeConfig, feature: "intake-kafka",
                look: kafka::look, source: |own, intake| kafka::KafkaSource::new(own.clone(), &intake.dead)?;
            /// A stream of NATS.
            "nats", nats: NatsIntakeConfig, feature: "intake-nats",
                look: nats::look, source: |own, intake| nats::NatsSource::new(own.clone(), &intake.dead, intake.in_flight);
            /// A queue of RabbitMQ.
            "rabbitmq", rabbitmq: RabbitmqIntakeConfig, feature: "intake-rabbitmq",
                look: rabbitmq::look,
                source: |own, intake| rabbitmq::RabbitmqSource::new(own.clone(), &intake.dead, intake.in_flight);
            /// A queue of Amazon SQS.
            "sqs", sqs: SqsIntakeConfig, feature: "intake-sqs",
                look: sqs::SqsSource::look, source: |own, intake| sqs::SqsSource::new(own.clone(), &intake.dead);
        }
    };
}

pub(super) use intake_kinds;
