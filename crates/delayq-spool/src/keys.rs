//! The keys of waiting records, in the memory of a process that checks for records to wait behind.
//!
//! An index in the database would cost each record a change of some page: keys are hashes, and spread. But nobody asks while
//! Redis is away, and records get rising numbers. So each check first reads the keys of records appended since the check
//! before, and looks up a match in the database, where the record may be settled already. A record takes 8 bytes, until a
//! check finds that the whole part with the record is settled.

use rusqlite::Connection;
use std::collections::BTreeMap;

/// The lower bits of an entry are the record's place in the part, the upper bits come from the key.
const PART: u32 = 16;
const LOW: i64 = (1 << PART) - 1;

/// A record that an operator let wait again has an old number.
const AGAIN: &str = "SELECT 1 FROM waiting_again WHERE key = ?";

/// The keys of waiting records, and of some settled ones.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// Sorted entries, by the upper bits of the record numbers.
    parts: BTreeMap<i64, Vec<i64>>,
    read: i64,
    looked: i64,
}

// === impl Keys ===

impl Keys {
    /// Continues after the last record read.
    pub(crate) fn read_on(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut select =
            connection.prepare_cached("SELECT seq, key FROM waiting WHERE seq > ? ORDER BY seq")?;
        let mut rows = select.query([self.read])?;
        let first = self.read >> PART;
        while let Some(row) = rows.next()? {
            let seq: i64 = row.get(0)?;
            // Another program may have written anything.
            let key = row.get_ref(1)?.as_i64().unwrap_or_default();
            self.parts.entry(seq >> PART).or_default().push(key & !LOW | seq & LOW);
            self.read = seq;
        }
        self.parts.range_mut(first..).for_each(|(_, entries)| entries.sort());
        self.forget(connection)
    }

    /// Forgets parts without a waiting record, from the next part up to the first that stays.
    fn forget(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut any = connection.prepare_cached("SELECT 1 FROM waiting WHERE seq BETWEEN ? AND ? LIMIT 1")?;
        while let Some((&part, _)) = self.parts.range(self.looked + 1..).chain(&self.parts).next() {
            self.looked = part;
            if any.exists([part << PART, part << PART | LOW])? {
                break;
            }
            self.parts.remove(&part);
        }
        Ok(())
    }

    /// Only for records appended before the last [`Self::read_on`].
    pub(crate) fn waits(&self, connection: &Connection, key: i64) -> rusqlite::Result<bool> {
        let mut waits = connection.prepare_cached("SELECT 1 FROM waiting WHERE seq = ? AND key = ?")?;
        for (part, entries) in &self.parts {
            let from = entries.partition_point(|&entry| entry < key & !LOW);
            for entry in entries[from..].iter().take_while(|&entry| entry & !LOW == key & !LOW) {
                if waits.exists([part << PART | entry & LOW, key])? {
                    return Ok(true);
                }
            }
        }
        connection.prepare_cached(AGAIN)?.exists([key])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;
    use delayq_tests::folder::Folder;

    #[test]
    fn what_no_longer_waits_is_forgotten_part_by_part() {
        let folder = Folder::new("spool");
        let spool = file::open(folder.path()).unwrap();
        let mut keys = Keys::default();
        let last_of_second = 2 << PART | LOW;
        for (seq, key) in [(1, 7), (2, -1), (2 << PART, 7), (last_of_second, i64::MIN), (3 << PART, 8)] {
            let sql =
                "INSERT INTO waiting (seq, key, spooled_ms, boot, up_ms, body) VALUES (?, ?, 0, 0, 0, x'')";
            spool.execute(sql, [seq, key]).unwrap();
            keys.read_on(&spool).unwrap();
        }
        let waits = |keys: &Keys| [7, -1, i64::MIN, 8, 9].map(|key| keys.waits(&spool, key).unwrap());
        assert_eq!(waits(&keys), [true, true, true, true, false]);
        let forget = |keys: &mut Keys| (0..3).for_each(|_| keys.read_on(&spool).unwrap());
        spool.execute("DELETE FROM waiting WHERE seq < 3", []).unwrap();
        forget(&mut keys);
        assert_eq!((waits(&keys), keys.parts.len()), ([true, false, true, true, false], 2));
        spool.execute("DELETE FROM waiting WHERE seq = 2 << 16", []).unwrap();
        forget(&mut keys);
        assert_eq!((waits(&keys), keys.parts.len()), ([false, false, true, true, false], 2));
        spool.execute("DELETE FROM waiting", []).unwrap();
        forget(&mut keys);
        assert_eq!((waits(&keys), keys.parts.len()), ([false; 5], 0));
    }
}
