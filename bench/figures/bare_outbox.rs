//! The outbox without a compensator: an inserter, a bare reader, and the holder of a snapshot.

use crate::error::BenchError;
use crate::messages::body;
use crate::shape::Shape;
use delayq::{Message, Producer, Topic, UnixMillis};
use tokio_postgres::{Client, NoTls};

const FILL: usize = 1000;
const DUE: UnixMillis = UnixMillis::new(4_102_444_800_000);

pub(crate) struct BareOutbox(Client);

// === impl BareOutbox ===

impl BareOutbox {
    pub(crate) async fn connect(url: &str) -> Result<Self, BenchError> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        Ok(Self(client))
    }

    pub(crate) async fn fill(&self, count: usize, shape: Shape) -> Result<(), BenchError> {
        for from in (0..count).step_by(FILL) {
            self.insert_all(from..count.min(from + FILL), shape).await?;
        }
        Ok(())
    }

    pub(crate) async fn insert(&self, number: usize, shape: Shape) -> Result<(), BenchError> {
        self.insert_all(number..number + 1, shape).await
    }

    async fn insert_all(&self, numbers: std::ops::Range<usize>, shape: Shape) -> Result<(), BenchError> {
        let topic = Topic::new("bench")?;
        let (mut ids, mut payloads) = (Vec::new(), Vec::new());
        for number in numbers {
            let message = shape.name(Message::new(topic.clone(), body()), number as u64)?;
            ids.extend(message.id.as_ref().map(ToString::to_string));
            payloads.push(message.payload);
        }
        let insert = "INSERT INTO delayq_outbox (topic, id, due, payload) \
                      SELECT 'bench', id, '2100-01-01Z', payload FROM unnest($1::text[], $2::bytea[]) AS r(id, payload)";
        self.0.execute(insert, &[&ids, &payloads]).await?;
        Ok(())
    }

    /// In order; puts each page in one call, and returns the number of rows.
    pub(crate) async fn read(&self, producer: &Producer, page: i64) -> Result<usize, BenchError> {
        let next = "SELECT tx::text::bigint, seq, topic, id, payload FROM delayq_outbox \
                    WHERE (tx, seq) > ($1::bigint::text::xid8, $2::bigint) ORDER BY tx, seq LIMIT $3";
        let next = self.0.prepare(next).await?;
        let (mut tx, mut seq, mut count) = (0_i64, 0_i64, 0);
        loop {
            let rows = self.0.query(&next, &[&tx, &seq, &page]).await?;
            let Some(last) = rows.last() else { return Ok(count) };
            (tx, seq, count) = (last.get(0), last.get(1), count + rows.len());
            let message = |row: &tokio_postgres::Row| {
                let message = Message::new(Topic::new(row.get::<_, &str>(2))?, row.get::<_, Vec<u8>>(4));
                message.at(DUE).id(row.get::<_, &str>(3))
            };
            let messages = rows.iter().map(message).collect::<Result<_, _>>()?;
            for put in producer.put_many(messages).await {
                put?;
            }
        }
    }

    /// Dead rows are kept while this connection lasts.
    pub(crate) async fn hold_snapshot(&self) -> Result<(), BenchError> {
        let hold = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class";
        Ok(self.0.batch_execute(hold).await?)
    }

    /// As counted by a vacuum of another connection.
    pub(crate) async fn dead_rows(url: &str) -> Result<i64, BenchError> {
        let other = Self::connect(url).await?.0;
        other.batch_execute("VACUUM delayq_outbox, delayq_outbox_progress, delayq_outbox_state").await?;
        let sum = "SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'delayq_outbox%'";
        Ok(other.query_one(sum, &[]).await?.get(0))
    }
}
