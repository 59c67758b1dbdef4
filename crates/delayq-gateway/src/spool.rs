//! The spool of this host. The gateway appends what cannot reach Redis, as any producer does, and no tenant more than a share; the
//! compensator of the host carries it out.

mod shares;

use crate::codes::SPOOL;
use crate::tenant::Tenant;
use delayq::Fate;
use delayq::spool::{GroupRecord, Spool, SpoolRecord, SpoolRefusal, Spooling, Taken};
use delayq_service::Fault;
use delayq_service::config::SpoolConfig;
use delayq_spool::{SpoolSettings, SpoolWriter};
use shares::{OF_A_GROUP, Place, Shares, bytes_of, name_of};
use std::sync::Arc;

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

    /// The bytes of a share, if this tenant's is used up.
    pub(crate) fn used_up(&self, tenant: &Tenant) -> Option<u64> {
        self.shares.is_used_up(tenant).then(|| self.shares.most())
    }

    /// Appends the records that have room. A record behind a refused one of the same owner is refused too, so that none
    /// overtakes it.
    async fn append_some<T>(
        &self,
        records: Vec<SpoolRecord>,
        place: Place,
        append: impl AsyncFnOnce(Vec<SpoolRecord>) -> Vec<Taken<T>>,
        is_appended: impl Fn(&T) -> bool,
    ) -> Vec<Taken<T>> {
        if !self.writer.may_hold() {
            self.shares.reset();
        }
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
    SpoolRefusal { fate: Fate::NotApplied, why: "the share of the tenant is used up".to_owned() }
}
