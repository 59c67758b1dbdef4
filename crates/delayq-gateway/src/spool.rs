//! The spool of this host. The gateway appends what cannot reach Redis, as any producer does, and no tenant more than a share; the
//! compensator of the host carries it out.

mod shares;

use crate::codes::SPOOL;
use crate::problem::Problem;
use crate::tenant::Tenant;
use delayq::spool::{GroupRecord, Spool, SpoolRecord, SpoolRefusal, Spooling, Taken};
use delayq::{Error, Fate};
use delayq_service::Fault;
use delayq_service::config::SpoolConfig;
use delayq_spool::{SpoolSettings, SpoolWriter};
use shares::{OF_A_GROUP, Place, Shares, bytes_of, name_of};
use std::sync::Arc;

const USED_UP: &str = "the share of the tenant is used up";

/// A spool of which no tenant takes more than a quarter.
#[derive(Debug)]
pub struct SharedSpool {
    writer: SpoolWriter,
    shares: Shares,
}

/// Opens the spool for [`crate::Deps`]; `None`: no spool is configured.
///
/// # Errors
/// [`SPOOL`]: the folder cannot be used.
pub fn open_spool(config: &SpoolConfig) -> Result<Option<Arc<SharedSpool>>, Fault> {
    let max_bytes = config.max_bytes.bytes();
    let settings = SpoolSettings { max_bytes };
    let writer = config.folder().map(|folder| SpoolWriter::open(folder, &settings)).transpose();
    let writer = writer.map_err(|error| Fault::new(&SPOOL, "`[spool] dir`").because(error))?;
    Ok(writer.map(|writer| Arc::new(SharedSpool { writer, shares: Shares::of(max_bytes) })))
}

// === impl SharedSpool ===

impl SharedSpool {
    /// From now on, the tenant has a share.
    pub(crate) fn know(&self, tenant: &Tenant) {
        self.shares.know(tenant);
    }

    /// The answer to a tenant whose write failed by this error, if the reason is the share.
    pub(crate) fn over_share(&self, error: &Error) -> Option<Problem> {
        let Error::Spool { refusal, .. } = error else { return None };
        (refusal.why == USED_UP).then(|| Problem::over_spool(self.shares.most(), error.fate()))
    }

    /// Frees every share once nothing waits in the spool.
    fn refresh(&self) {
        if !self.writer.may_hold() {
            self.shares.reset();
        }
    }

    /// Appends the records that have room. A record behind a refused one of the same topic is refused too, so that none
    /// overtakes it.
    async fn append_some<T>(
        &self,
        records: Vec<SpoolRecord>,
        place: Place,
        append: impl AsyncFnOnce(Vec<SpoolRecord>) -> Vec<Taken<T>>,
        is_appended: impl Fn(&T) -> bool,
    ) -> Vec<Taken<T>> {
        self.refresh();
        let mut kept: Vec<SpoolRecord> = Vec::new();
        let mut rooms: Vec<Option<(String, u64)>> = Vec::new();
        let mut refused: Vec<String> = Vec::new();
        for record in records {
            let (name, bytes) = (record.topic.as_str().to_owned(), bytes_of(&record));
            let has_room = !refused.contains(&name) && self.shares.take(&name, bytes, place).is_ok();
            if has_room {
                kept.push(record);
                rooms.push(Some((name, bytes)));
            } else {
                refused.push(name);
                rooms.push(None);
            }
        }
        let mut answers = append(kept).await.into_iter();
        let answer = |room: Option<(String, u64)>| {
            let Some((name, bytes)) = room else { return Err(used_up()) };
            let taken = answers.next().expect("each record has one answer");
            if !taken.as_ref().is_ok_and(&is_appended) {
                self.shares.give_back(&name, bytes);
            }
            taken
        };
        rooms.into_iter().map(answer).collect()
    }
}

impl Spool for SharedSpool {
    fn append(&self, records: Vec<SpoolRecord>) -> Spooling<'_, Vec<Taken<()>>> {
        let append = async |records| Spool::append(&self.writer, records).await;
        Box::pin(self.append_some(records, Place::Anywhere, append, |()| true))
    }

    fn may_hold(&self) -> bool {
        self.writer.may_hold()
    }

    fn append_behind(&self, records: Vec<SpoolRecord>) -> Spooling<'_, Vec<Taken<bool>>> {
        let append = async |records| Spool::append_behind(&self.writer, records).await;
        Box::pin(self.append_some(records, Place::Behind, append, |appended| *appended))
    }

    fn append_group(&self, record: GroupRecord, only_behind: bool) -> Spooling<'_, Taken<bool>> {
        Box::pin(async move {
            self.refresh();
            let place = if only_behind { Place::Behind } else { Place::Anywhere };
            let name = name_of(&record).to_owned();
            self.shares.take(&name, OF_A_GROUP, place).map_err(|()| used_up())?;
            let taken = Spool::append_group(&self.writer, record, only_behind).await;
            if !matches!(taken, Ok(true)) {
                self.shares.give_back(&name, OF_A_GROUP);
            }
            taken
        })
    }
}

fn used_up() -> SpoolRefusal {
    SpoolRefusal { fate: Fate::NotApplied, why: USED_UP.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq_tests::folder::Folder;

    fn spool(folder: &Folder) -> SharedSpool {
        let settings = SpoolSettings { max_bytes: 1 << 20 };
        let writer = SpoolWriter::open(folder.path(), &settings).unwrap();
        SharedSpool { writer, shares: Shares::of(settings.max_bytes) }
    }

    #[tokio::test]
    async fn a_write_that_redis_may_have_carried_out_is_not_said_to_be_undone() {
        let folder = Folder::new("share");
        let spool = spool(&folder);
        let lost = Error::NoAnswer { address: String::new(), why: "timed out".to_owned() };
        for (outage, fate) in [(None, "not_applied"), (Some(Box::new(lost)), "unknown")] {
            let problem = spool.over_share(&Error::Spool { refusal: used_up(), outage }).unwrap();
            assert_eq!(problem.item()["fate"], fate);
        }
        let full = SpoolRefusal { why: "full".to_owned(), ..used_up() };
        assert!(spool.over_share(&Error::Spool { refusal: full, outage: None }).is_none());
    }
}
