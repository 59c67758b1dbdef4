//! The statements.

use crate::outbox::keeper::AsidePage;
use crate::outbox::row::{MAX_HEADERS, MAX_PAGE_BYTES, MAX_PAYLOAD};

/// The bytes of a row's payload and headers.
const BYTES: &str = "COALESCE(OCTET_LENGTH(payload), 0) + COALESCE(OCTET_LENGTH(headers), 0)";
/// All columns of a row, by name.
const ALL: &str = "seq, added, verb, topic, id, group_id, due, delay_ms, expected, payload, headers, expires, max_attempts, \
     replaces, again";

/// True if two rows are of one message. A generated id is found without the group.
fn same_message(one: &str, other: &str) -> String {
    format!(
        "{one}.id = {other}.id AND {one}.topic = {other}.topic \
         AND ({one}.group_id <=> {other}.group_id OR {one}.id LIKE '~%')"
    )
}

/// The server's version.
pub(super) const SERVER: &str = "SELECT VERSION()";
/// The version of the tables.
pub(super) const FIT: &str = "SELECT version FROM delayq_outbox_state";
/// A row if anything waits.
pub(super) const WAITS: &str = "SELECT 1 FROM delayq_outbox LIMIT 1";
/// A row if the turn was free.
pub(super) const TURN: &str = "SELECT version FROM delayq_outbox_state FOR UPDATE SKIP LOCKED";
/// A row if there are tables.
pub(super) const IS_THERE: &str = "SELECT 1 FROM information_schema.tables \
     WHERE table_schema = DATABASE() AND table_name = 'delayq_outbox_state'";
/// The number of rows that are not settled.
pub(super) const UNSETTLED_ROWS: &str = "SELECT COUNT(*) FROM delayq_outbox";
/// age of the oldest row that waits, rejected and resting rows, bytes.
pub(super) const BOOKS: &str = "SELECT \
     CAST(GREATEST(0, TIMESTAMPDIFF(MICROSECOND, \
         LEAST(COALESCE(w.oldest, a.oldest), COALESCE(a.oldest, w.oldest)), SYSDATE(6))) DIV 1000 AS UNSIGNED), \
     a.rejected, a.resting, \
     (SELECT CAST(COALESCE(SUM(data_length + index_length), 0) AS UNSIGNED) FROM information_schema.tables \
      WHERE table_schema = DATABASE() AND table_name = 'delayq_outbox') \
     FROM (SELECT (SELECT added FROM delayq_outbox ORDER BY seq LIMIT 1) AS oldest) w, \
     (SELECT CAST(COALESCE(SUM(NOT resting), 0) AS UNSIGNED) AS rejected, \
      CAST(COALESCE(SUM(resting), 0) AS UNSIGNED) AS resting, \
      MIN(CASE WHEN resting THEN added END) AS oldest FROM delayq_outbox_aside) a";
/// Changes a row aside: resting, reason, number.
pub(super) const STILL_ASIDE: &str =
    "UPDATE delayq_outbox_aside SET resting = ?, reason = ? WHERE number = ?";

/// The columns of a row, in the order of [`super::turn::row_of`]; `behind`: the rows aside that the row may rest behind.
/// Times are in microseconds. A payload or header too large for any message is not read, because the memory might not
/// suffice.
fn columns(behind: &str) -> String {
    let payload = format!("IF(OCTET_LENGTH(o.payload) <= {MAX_PAYLOAD}, o.payload, NULL)");
    let headers = format!("IF(OCTET_LENGTH(o.headers) <= {MAX_HEADERS}, CAST(o.headers AS CHAR), NULL)");
    columns_with(&payload, &headers, behind)
}

fn columns_with(payload: &str, headers: &str, behind: &str) -> String {
    format!(
        "o.verb, LEFT(o.topic, 999), LEFT(o.id, 999), LEFT(o.group_id, 999), \
         CAST(UNIX_TIMESTAMP(o.due) * 1000000 AS UNSIGNED), o.delay_ms, \
         CAST(UNIX_TIMESTAMP(o.expected) * 1000000 AS UNSIGNED), \
         {payload}, {headers}, \
         CAST(UNIX_TIMESTAMP(o.expires) * 1000000 AS UNSIGNED), o.max_attempts, o.replaces <> 0, o.again, \
         CAST(GREATEST(0, COALESCE(TIMESTAMPDIFF(MICROSECOND, o.added, SYSDATE(6)), 0)) DIV 1000 AS UNSIGNED), \
         CASE WHEN OCTET_LENGTH(o.payload) > {MAX_PAYLOAD} \
             THEN CONCAT('payload: ', OCTET_LENGTH(o.payload), ' bytes; at most {MAX_PAYLOAD}') \
         WHEN OCTET_LENGTH(o.headers) > {MAX_HEADERS} \
             THEN CONCAT('headers: ', OCTET_LENGTH(o.headers), ' bytes; at most {MAX_HEADERS}') END, \
         EXISTS (SELECT 1 FROM delayq_outbox_aside b WHERE b.resting AND {} AND {behind}), \
         CAST(CONCAT(o.seq, ' ', UNIX_TIMESTAMP(o.added)) AS CHAR)",
        same_message("b", "o")
    )
}

/// Keeps a row aside: resting, reason, seq; `whole`: with payload and headers.
pub(super) fn set_aside(whole: bool) -> String {
    let columns = if whole { ALL.to_owned() } else { ALL.replace("payload, headers", "NULL, NULL") };
    format!(
        "INSERT INTO delayq_outbox_aside (resting, reason, {ALL}) SELECT ?, ?, {columns} FROM delayq_outbox WHERE seq = ?"
    )
}

/// The number of the first row.
pub(super) const FIRST: &str = "SELECT seq FROM delayq_outbox ORDER BY seq LIMIT 1";
/// A row if any is rejected.
pub(super) const ANY_REJECTED: &str = "SELECT 1 FROM delayq_outbox_aside WHERE resting = FALSE LIMIT 1";

/// The numbers of rejected rows that these later rows of the same messages overtake; `aside`: rows aside, by number.
pub(super) fn overtaken(of: &[u64], aside: bool) -> String {
    let (table, key) = if aside { ("delayq_outbox_aside", "number") } else { ("delayq_outbox", "seq") };
    format!(
        "SELECT DISTINCT a.number FROM delayq_outbox_aside a JOIN {table} o ON {} \
         WHERE o.{key} IN ({}) AND a.seq < o.seq AND a.resting = FALSE AND a.overtaken = FALSE",
        same_message("a", "o"),
        list(of)
    )
}

/// Notes that rejected rows are overtaken.
pub(super) fn overtake(numbers: &[u64]) -> String {
    format!("UPDATE delayq_outbox_aside SET overtaken = TRUE WHERE number IN ({})", list(numbers))
}

/// seq and columns of the first rows, at most so many.
pub(super) fn next_rows(most: usize) -> String {
    format!(
        "SELECT o.seq, {} FROM \
         (SELECT seq, bytes, SUM(bytes) OVER (ORDER BY seq) AS total FROM \
          (SELECT seq, {BYTES} AS bytes FROM delayq_outbox ORDER BY seq LIMIT {most}) f) k \
         JOIN delayq_outbox o ON o.seq = k.seq WHERE k.total <= {MAX_PAGE_BYTES} OR k.total = k.bytes ORDER BY k.seq",
        columns("TRUE")
    )
}

/// Deletes rows, each by the number alone: a statement for many may be a scan, which waits for rows that are not committed.
pub(super) fn settled(seqs: &[u64]) -> String {
    seqs.iter().map(|seq| format!("DELETE FROM delayq_outbox WHERE seq = {seq};")).collect()
}

/// number, columns, reason, since, resting or not, of rows aside.
pub(super) fn aside_rows(AsidePage { resting, after, most, whole }: AsidePage) -> String {
    let (bytes, columns) = match whole {
        true => (BYTES, columns(&format!("b.number <= {after}"))),
        false => ("0", columns_with("NULL", "NULL", "FALSE")),
    };
    format!(
        "SELECT o.number, {columns}, o.reason, CAST(UNIX_TIMESTAMP(o.since) * 1000 AS UNSIGNED), o.resting <> 0, o.overtaken <> 0 FROM \
         (SELECT number, bytes, SUM(bytes) OVER (ORDER BY number) AS total FROM \
          (SELECT number, {bytes} AS bytes FROM delayq_outbox_aside \
           WHERE resting = {resting} AND number > {after} ORDER BY number LIMIT {most}) f) k \
         JOIN delayq_outbox_aside o ON o.number = k.number \
         WHERE k.total <= {MAX_PAGE_BYTES} OR k.total = k.bytes ORDER BY k.number"
    )
}

/// Locks rows aside that fulfil a condition, and returns the numbers.
pub(super) fn lock_aside(numbers: &[u64], only: &str) -> String {
    format!(
        "SELECT number FROM delayq_outbox_aside WHERE number IN ({}) AND {only} ORDER BY number FOR UPDATE",
        list(numbers)
    )
}

/// Lets rejected rows rest until another try.
pub(super) fn retry(numbers: &[u64]) -> String {
    format!(
        "UPDATE delayq_outbox_aside SET resting = TRUE, overtaken = FALSE WHERE number IN ({})",
        list(numbers)
    )
}

/// Deletes rows aside.
pub(super) fn delete_aside(numbers: &[u64]) -> String {
    format!("DELETE FROM delayq_outbox_aside WHERE number IN ({})", list(numbers))
}

/// Numbers for an `IN`, which cannot be empty; no number is 0.
fn list(numbers: &[u64]) -> String {
    if numbers.is_empty() {
        return "0".to_owned();
    }
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
