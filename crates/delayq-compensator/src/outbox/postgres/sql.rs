//! The statements, for the tables of a schema.

use crate::outbox::row::{MAX_HEADERS, MAX_PAGE_BYTES, MAX_PAYLOAD};
use crate::outbox::store::SLOW;

/// All columns of a row, by name.
const ALL: &str = "tx, seq, slot, added, verb, topic, id, group_id, due, delay_ms, expected, payload, headers, expires, \
     max_attempts, replaces, again";
/// The bytes of a row's payload and headers.
const BYTES: &str = "(coalesce(octet_length(payload), 0) + coalesce(pg_column_size(headers), 0))::bigint";
/// True if two rows are of one message. A generated id is found without the group.
fn same_message(one: &str, other: &str) -> String {
    format!(
        "{one}.id = {other}.id AND {one}.topic = {other}.topic \
         AND ({one}.group_id IS NOT DISTINCT FROM {other}.group_id OR {one}.id LIKE '~%')"
    )
}

/// The number of this cluster.
const CLUSTER: &str = "(SELECT system_identifier::text FROM pg_control_system())";

/// Settled, for transactions have numbers from 3 on.
const SETTLED: &str = "'3'::xid8";
/// Sees exactly the rows of [`SETTLED`].
const ALL_WAIT: &str = "'4:4:'::pg_snapshot";
/// A statement that has to pass a disabled plan is not worth compiling.
const PLANS: &str = "SET LOCAL jit = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off";

/// A role's own limit may be too short for the keys of a window that waited long.
const SLOW_S: u64 = SLOW.as_secs();

/// The statements of a schema.
#[derive(Debug)]
pub(super) struct Sql {
    schema: String,
}

// === impl Sql ===

impl Sql {
    /// `schema` needs no quotes.
    pub(super) fn new(schema: &str) -> Self {
        Self { schema: schema.to_owned() }
    }

    /// The statements that make the tables.
    pub(super) fn schema(&self) -> String {
        include_str!("schema.sql").replace("{schema}", &self.schema)
    }

    /// The columns of a row, in the order of [`super::turn`]; `behind`: the rows aside that the row may rest behind. A
    /// payload or header too large for any message is not read, because the memory might not suffice.
    fn columns(&self, behind: &str) -> String {
        let payload = format!("CASE WHEN octet_length(o.payload) <= {MAX_PAYLOAD} THEN o.payload END");
        let headers =
            format!("CASE WHEN octet_length(o.headers::text) <= {MAX_HEADERS} THEN o.headers::text END");
        self.columns_with(&payload, &headers, behind)
    }

    fn columns_with(&self, payload: &str, headers: &str, behind: &str) -> String {
        format!(
            "o.verb, left(o.topic, 999), left(o.id, 999), left(o.group_id, 999), o.due, o.delay_ms, o.expected, {payload}, \
             {headers}, o.expires, o.max_attempts, o.replaces, left(o.again, 99), \
             greatest(0, extract(epoch FROM clock_timestamp() - o.added) * 1000)::bigint, \
             CASE WHEN octet_length(o.payload) > {MAX_PAYLOAD} \
                 THEN 'payload: ' || octet_length(o.payload) || ' bytes; at most {MAX_PAYLOAD}' \
             WHEN octet_length(o.headers::text) > {MAX_HEADERS} \
                 THEN 'headers: ' || octet_length(o.headers::text) || ' bytes; at most {MAX_HEADERS}' END, \
             EXISTS (SELECT FROM {}.delayq_outbox_aside b WHERE b.resting AND {} AND {behind}), \
             o.seq || ' ' || extract(epoch FROM o.added)",
            self.schema,
            same_message("b", "o")
        )
    }

    /// version, and true if the tables are of this cluster.
    pub(super) fn fit(&self) -> String {
        format!("SELECT version, cluster = {CLUSTER} FROM {}.delayq_outbox_state", self.schema)
    }

    /// True if anything waits. Ordered by the index, for a table without statistics would be read whole.
    pub(super) fn waits(&self) -> String {
        let s = &self.schema;
        format!(
            "SELECT p.until IS NOT NULL \
             OR (SELECT tx FROM {s}.delayq_outbox WHERE tx >= pg_snapshot_xmax(p.before) ORDER BY tx LIMIT 1) IS NOT NULL \
             OR (SELECT tx FROM {s}.delayq_outbox WHERE tx = ANY (ARRAY(SELECT pg_snapshot_xip(p.before))) \
                 ORDER BY tx LIMIT 1) IS NOT NULL \
             FROM (SELECT before, until FROM {s}.delayq_outbox_progress ORDER BY turn DESC LIMIT 1) p"
        )
    }

    /// Begins a turn that the server ends itself if this process is gone.
    pub(super) fn begin(idle_ms: u128) -> String {
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = {idle_ms}; \
             SET LOCAL lock_timeout = {idle_ms}; SET LOCAL statement_timeout = '{SLOW_S}s'; SET LOCAL enable_seqscan = off; {PLANS}"
        )
    }

    /// A row as of [`Self::fit`] if the turn was free.
    pub(super) fn turn(&self) -> String {
        format!("{} FOR UPDATE SKIP LOCKED", self.fit())
    }

    /// turn, before, until or the present snapshot, whether `until` is new, seq.
    pub(super) fn progress(&self) -> String {
        format!(
            "SELECT turn, before::text, coalesce(until, pg_current_snapshot())::text, until IS NULL, seq \
             FROM {}.delayq_outbox_progress ORDER BY turn DESC LIMIT 1",
            self.schema
        )
    }

    /// tx, seq, bytes of the next keys of the window between $1 and $2, behind the seq $3, at most $4.
    pub(super) fn keys(&self) -> String {
        let s = &self.schema;
        let part = |of: &str| {
            format!(
                "(SELECT tx::text::bigint AS tx, seq, {BYTES} AS bytes FROM {s}.delayq_outbox \
                 WHERE {of} AND pg_visible_in_snapshot(tx, $2::text::pg_snapshot) AND seq > $3)"
            )
        };
        let (late, new) = (
            part("tx = ANY (ARRAY(SELECT pg_snapshot_xip($1::text::pg_snapshot)))"),
            part(
                "tx >= pg_snapshot_xmax($1::text::pg_snapshot) AND tx < pg_snapshot_xmax($2::text::pg_snapshot)",
            ),
        );
        format!("{late} UNION ALL {new} ORDER BY seq LIMIT $4")
    }

    /// The place in the arrays $1 (tx) and $2 (seq), and the columns of the rows.
    pub(super) fn rows(&self) -> String {
        format!(
            "SELECT k.place, {} FROM unnest($1, $2) WITH ORDINALITY AS k(tx, seq, place) \
             JOIN {}.delayq_outbox o ON o.tx = k.tx::text::xid8 AND o.seq = k.seq ORDER BY k.place",
            self.columns("true"),
            self.schema
        )
    }

    /// Keeps rows aside: tx, seq, resting, reason; `whole`: with payloads and headers.
    pub(super) fn set_aside(&self, whole: bool) -> String {
        let s = &self.schema;
        let column = |name: &str| match name {
            "payload" | "headers" if !whole => "NULL".to_owned(),
            name => format!("o.{name}"),
        };
        let columns = ALL.split(", ").map(column).collect::<Vec<_>>().join(", ");
        format!(
            "INSERT INTO {s}.delayq_outbox_aside (resting, reason, {ALL}) \
             SELECT k.resting, k.reason, {columns} \
             FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS k(tx, seq, resting, reason, place) \
             JOIN {s}.delayq_outbox o ON o.tx = k.tx::text::xid8 AND o.seq = k.seq ORDER BY k.place"
        )
    }

    /// Notes the progress: before, until, seq, tx of the row with that seq. Returns the number.
    pub(super) fn advance(&self) -> String {
        let s = &self.schema;
        format!(
            "INSERT INTO {s}.delayq_outbox_progress (before, until, seq, added) \
             VALUES ($1::text::pg_snapshot, $2::text::pg_snapshot, $3, \
             (SELECT added FROM {s}.delayq_outbox WHERE tx = $4::text::xid8 AND seq = $3)) RETURNING turn",
        )
    }

    /// Ends the rows aside with these numbers: the rows were carried out.
    pub(super) fn carried_out(&self) -> String {
        format!("DELETE FROM {}.delayq_outbox_aside WHERE number = ANY ($1)", self.schema)
    }

    /// Changes rows aside: numbers, resting, reason.
    pub(super) fn still_aside(&self) -> String {
        format!(
            "UPDATE {}.delayq_outbox_aside a SET resting = k.resting, reason = k.reason \
             FROM unnest($1, $2, $3) AS k(number, resting, reason) \
             WHERE a.number = k.number AND (a.resting, a.reason) IS DISTINCT FROM (k.resting, k.reason)",
            self.schema
        )
    }

    /// age of the oldest row that waits, rejected and resting rows, bytes. Within a window the age is that of the last
    /// settled row, because the first waiting row may be millions of rows away.
    pub(super) fn books(&self) -> String {
        let s = &self.schema;
        let oldest =
            |of: &str| format!("(SELECT added FROM {s}.delayq_outbox WHERE {of} ORDER BY tx, seq LIMIT 1)");
        let (late, new) = (
            oldest("tx = ANY (ARRAY(SELECT pg_snapshot_xip(p.before)))"),
            oldest("tx >= pg_snapshot_xmax(p.before)"),
        );
        format!(
            "SELECT (extract(epoch FROM clock_timestamp() - \
             least(CASE WHEN p.added IS NULL THEN least({late}, {new}) ELSE p.added END, a.oldest)) * 1000)::bigint, \
             a.rejected, a.resting, \
             pg_total_relation_size('{s}.delayq_outbox_0') + pg_total_relation_size('{s}.delayq_outbox_1') \
             FROM (SELECT * FROM {s}.delayq_outbox_progress ORDER BY turn DESC LIMIT 1) p, \
             (SELECT count(*) FILTER (WHERE NOT resting) AS rejected, count(*) FILTER (WHERE resting) AS resting, \
              min(added) FILTER (WHERE resting) AS oldest FROM {s}.delayq_outbox_aside) a"
        )
    }

    /// The table that takes new rows: 0 or 1.
    pub(super) fn slot(&self) -> String {
        format!("SELECT last_value FROM {}.delayq_outbox_slot", self.schema)
    }

    /// Moves on to the other table.
    pub(super) fn move_to(&self, slot: i64) -> String {
        format!("SELECT setval('{}.delayq_outbox_slot', {slot})", self.schema)
    }

    /// Of a table: takes room or not, and the ages of the first and the last row in ms.
    pub(super) fn shape(&self, slot: i64) -> String {
        let table = format!("{}.delayq_outbox_{slot}", self.schema);
        let age = |order: &str| {
            format!(
                "(SELECT extract(epoch FROM clock_timestamp() - added) * 1000 FROM {table} ORDER BY tx {order} LIMIT 1)::bigint"
            )
        };
        format!("SELECT pg_relation_size('{table}') > 0, {}, {}", age("ASC"), age("DESC"))
    }

    /// Locks a table and the matching part of the progress, if nobody writes to the table.
    pub(super) fn lock(&self, slot: i64, wait_ms: u32) -> String {
        let s = &self.schema;
        format!(
            "SET LOCAL lock_timeout = {wait_ms}; \
             LOCK TABLE {s}.delayq_outbox_{slot}, {s}.delayq_outbox_progress_{slot} IN ACCESS EXCLUSIVE MODE"
        )
    }

    /// True if a table has a row that the snapshot $1 does not see.
    pub(super) fn unsettled(&self, slot: i64) -> String {
        let table = format!("{}.delayq_outbox_{slot}", self.schema);
        format!(
            "SELECT (SELECT tx FROM {table} WHERE tx >= pg_snapshot_xmax($1::text::pg_snapshot) ORDER BY tx LIMIT 1) \
                 IS NOT NULL \
             OR (SELECT tx FROM {table} WHERE tx = ANY (ARRAY(SELECT pg_snapshot_xip($1::text::pg_snapshot))) \
                 ORDER BY tx LIMIT 1) IS NOT NULL"
        )
    }

    /// Truncates a table and the matching part of the progress.
    pub(super) fn truncate(&self, slot: i64) -> String {
        let s = &self.schema;
        format!("TRUNCATE {s}.delayq_outbox_{slot}, {s}.delayq_outbox_progress_{slot}")
    }

    /// The transaction that has held a table for the longest, and for longer than so many seconds: process, user,
    /// application, for how many seconds.
    pub(super) fn holder(&self, slot: i64, longer_than: u64) -> String {
        format!(
            "SELECT l.pid, a.usename::text, a.application_name, \
             extract(epoch FROM clock_timestamp() - a.xact_start)::bigint \
             FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
             WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
             AND l.relation = '{}.delayq_outbox_{slot}'::regclass AND l.granted \
             AND l.pid IS DISTINCT FROM pg_backend_pid() \
             AND coalesce(a.xact_start <= clock_timestamp() - interval '{longer_than} s', true) \
             ORDER BY a.xact_start LIMIT 1",
            self.schema
        )
    }

    /// True if there are tables.
    pub(super) fn is_there(&self) -> String {
        format!("SELECT to_regclass('{}.delayq_outbox_state') IS NOT NULL", self.schema)
    }

    /// number, columns, reason, since, resting or not, of a page of rows aside: resting or rejected ($1), behind a number
    /// ($2), at most ($3).
    pub(super) fn aside_rows(&self) -> String {
        self.aside_page(BYTES, &self.columns("b.number <= $2"))
    }

    /// The same without payloads and headers.
    pub(super) fn aside_names(&self) -> String {
        self.aside_page("0", &self.columns_with("NULL::bytea", "NULL::text", "false"))
    }

    fn aside_page(&self, bytes: &str, columns: &str) -> String {
        let s = &self.schema;
        format!(
            "SELECT o.number, {columns}, o.reason, (extract(epoch FROM o.since) * 1000)::bigint, o.resting, o.overtaken FROM \
             (SELECT number, bytes, sum(bytes) OVER (ORDER BY number) AS total FROM \
              (SELECT number, {bytes} AS bytes FROM {s}.delayq_outbox_aside \
               WHERE resting = $1 AND number > $2 ORDER BY number LIMIT $3) f) k \
             JOIN {s}.delayq_outbox_aside o ON o.number = k.number \
             WHERE k.total <= {MAX_PAGE_BYTES} OR k.total = k.bytes ORDER BY k.number"
        )
    }

    /// Marks rejected rows as overtaken by the later rows with $1 (tx) and $2 (seq).
    pub(super) fn overtake(&self) -> String {
        let (s, same) = (&self.schema, same_message("a", "o"));
        format!(
            "UPDATE {s}.delayq_outbox_aside a SET overtaken = true FROM unnest($1, $2) AS k(tx, seq) \
             JOIN {s}.delayq_outbox o ON o.tx = k.tx::text::xid8 AND o.seq = k.seq \
             WHERE {same} AND a.seq < o.seq AND NOT a.resting AND NOT a.overtaken \
             AND EXISTS (SELECT FROM {s}.delayq_outbox_aside WHERE NOT resting)"
        )
    }

    /// The same for later rows that were aside too: their numbers.
    pub(super) fn overtake_aside(&self) -> String {
        let (s, same) = (&self.schema, same_message("a", "o"));
        format!(
            "UPDATE {s}.delayq_outbox_aside a SET overtaken = true FROM {s}.delayq_outbox_aside o \
             WHERE o.number = ANY ($1) AND {same} AND a.seq < o.seq \
             AND NOT a.resting AND NOT a.overtaken"
        )
    }

    /// Lets rejected rows rest until another try; overtaken rows too ($2).
    pub(super) fn retry(&self) -> String {
        format!(
            "UPDATE {}.delayq_outbox_aside SET resting = true, overtaken = false \
             WHERE number = ANY ($1) AND NOT resting AND ($2 OR NOT overtaken) RETURNING number",
            self.schema
        )
    }

    /// Deletes rows aside, and the originals, so that these are not reconciled.
    pub(super) fn discard(&self) -> String {
        let s = &self.schema;
        format!(
            "WITH discarded AS (DELETE FROM {s}.delayq_outbox_aside WHERE number = ANY ($1) RETURNING number, tx, seq), \
             kept AS (DELETE FROM {s}.delayq_outbox o USING discarded d WHERE o.tx = d.tx AND o.seq = d.seq) \
             SELECT number FROM discarded",
        )
    }

    /// Begins to take over rows of another cluster with other transaction numbers: settled rows stay settled, the others
    /// wait. Rows newer than the progress were inserted here, or restored after the progress; these wait in any case.
    /// Waiting rows get new numbers, and newer rows get the last, because producers may have inserted those before the
    /// sequence was restored.
    pub(super) fn adopt(&self) -> String {
        let s = &self.schema;
        let settled = "pg_visible_in_snapshot(o.tx, p.before) \
             OR (p.until IS NOT NULL AND pg_visible_in_snapshot(o.tx, p.until) AND o.seq <= p.seq)";
        let kind = format!(
            "CASE WHEN coalesce({settled}, false) AND age(o.xmin) >= age(p.at) THEN {SETTLED} \
             WHEN age(o.xmin) >= age(p.at) THEN '4' ELSE '5' END::xid8"
        );
        format!(
            "BEGIN; SET LOCAL lock_timeout = '10s'; SELECT FROM {s}.delayq_outbox_state FOR UPDATE; \
             LOCK TABLE {s}.delayq_outbox, {s}.delayq_outbox_progress IN ACCESS EXCLUSIVE MODE; \
             UPDATE {s}.delayq_outbox o \
             SET tx = k.kind, seq = CASE k.kind WHEN {SETTLED} THEN o.seq ELSE k.largest + k.place END \
             FROM (SELECT tx, seq, slot, kind, max(seq) OVER () AS largest, \
                   row_number() OVER (ORDER BY kind, seq, tx) AS place \
                   FROM (SELECT o.tx, o.seq, o.slot, {kind} AS kind FROM {s}.delayq_outbox o LEFT JOIN \
                         (SELECT before, until, seq, xmin AS at FROM {s}.delayq_outbox_progress \
                          ORDER BY turn DESC LIMIT 1) p ON true) r) k \
             WHERE (o.tx, o.seq, o.slot) = (k.tx, k.seq, k.slot); \
             UPDATE {s}.delayq_outbox_aside SET tx = {SETTLED}; \
             TRUNCATE {s}.delayq_outbox_progress; \
             INSERT INTO {s}.delayq_outbox_progress (before) VALUES ({ALL_WAIT}); \
             SELECT setval('{s}.delayq_outbox_seq', greatest((SELECT last_value FROM {s}.delayq_outbox_seq), \
                 (SELECT max(seq) FROM {s}.delayq_outbox))); \
             UPDATE {s}.delayq_outbox_state SET cluster = {CLUSTER}"
        )
    }

    /// The number of rows that wait in adopted tables.
    pub(super) fn adopted(&self) -> String {
        format!("SELECT count(*) FROM {}.delayq_outbox WHERE tx > {SETTLED}", self.schema)
    }

    /// Waits for the turn, for a while. The server ends a frozen process's session.
    pub(super) fn hold(&self) -> String {
        format!(
            "BEGIN; SET LOCAL lock_timeout = '30s'; SET LOCAL idle_in_transaction_session_timeout = '5min'; {PLANS}; \
             SELECT FROM {}.delayq_outbox_state FOR UPDATE",
            self.schema
        )
    }

    /// tx, columns without payload and headers, seq of the rows of the last $1 ms that are not aside, in order.
    pub(super) fn kept(&self) -> String {
        let s = &self.schema;
        let columns = self.columns_with("NULL::bytea", "NULL::text", "false");
        format!(
            "SELECT o.tx::text::bigint, {columns}, o.seq FROM {s}.delayq_outbox o \
             WHERE o.added >= clock_timestamp() - $1 * interval '1 millisecond' \
             AND (o.tx, o.seq) NOT IN (SELECT a.tx, a.seq FROM {s}.delayq_outbox_aside a) ORDER BY o.seq",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_migration_and_an_adoption_begin_with_nothing_settled() {
        assert!(Sql::new("public").schema().contains(&format!("VALUES ({ALL_WAIT})")));
    }
}
