//! Writes of few messages in a fixed order without a pattern, and the resulting state of these messages.

use super::{FAR, Host, message, target, topic};
use delayq::spool::SpoolRecord;
use delayq::{Admin, Due, Fate, Message, Producer, Reschedule, Target, UnixMillis};

/// A write of message `id`; `n` distinguishes writes of one message.
#[derive(Clone, Debug)]
pub(super) struct Write {
    kind: Kind,
    pub(super) id: String,
    pub(super) n: u64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Put,
    Replace,
    Cancel,
    Reschedule,
}

pub(super) fn writes(count: u64, ids: u64) -> impl Iterator<Item = Write> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..count).map(move |n| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let kind = [Kind::Put, Kind::Replace, Kind::Cancel, Kind::Reschedule][(state >> 33) as usize % 4];
        Write { kind, id: format!("m{}", (state >> 40) % ids), n }
    })
}

pub(super) async fn known_by_ids(host: &Host, ids: u64) -> Vec<String> {
    known(host, (0..ids).map(|id| target(&format!("m{id}")))).await
}

pub(super) async fn known(host: &Host, targets: impl IntoIterator<Item = Target>) -> Vec<String> {
    let admin = Admin::new(host.deployment.client.clone());
    let mut known = Vec::new();
    for target in targets {
        let found = admin.topic(&topic()).get(&target).await.unwrap();
        known.push(found.map_or_else(String::new, |found| {
            let kept = found.envelope.unwrap();
            format!("{:?} {:?} {:?}", kept.state, kept.due, kept.payload)
        }));
    }
    known
}

// === impl Write ===

impl Write {
    pub(super) async fn carry_out(&self, producer: &Producer) {
        let target = target(&self.id);
        match self.kind {
            Kind::Put | Kind::Replace => drop(producer.put(self.message()).await.unwrap()),
            Kind::Cancel => drop(producer.cancel(&topic(), &target).await.unwrap()),
            Kind::Reschedule => {
                drop(producer.reschedule(&topic(), &target, self.change()).await.unwrap());
            }
        }
    }

    pub(super) fn record(&self) -> SpoolRecord {
        let (target, at) = (target(&self.id), UnixMillis::new(1));
        match self.kind {
            Kind::Put | Kind::Replace => SpoolRecord::put(&self.message(), Fate::NotApplied, at),
            Kind::Cancel => SpoolRecord::cancel(&topic(), &target, at),
            Kind::Reschedule => SpoolRecord::reschedule(&topic(), &target, self.change(), at),
        }
    }

    fn message(&self) -> Message {
        let body = format!("body {}", self.n);
        match self.kind {
            Kind::Replace => Message::new(topic(), body).id(&*self.id).unwrap().at(self.due()).replace(),
            _ => message(&self.id).at(self.due()),
        }
    }

    fn change(&self) -> Reschedule {
        Reschedule::To(Due::At(self.due()))
    }

    fn due(&self) -> UnixMillis {
        UnixMillis::new(FAR.get() + self.n)
    }
}
