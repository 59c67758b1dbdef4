//! Faults of every kind, planted.

use super::scene::{Scene, own};
use super::{FAR, NEVER};
use delayq::admin::FindingKind;
use delayq::protocol::Holder;
use std::collections::BTreeSet;

impl Scene {
    /// Plants a message, an entry, an index and a counter for each kind of fault. Topic `stuck` is number 1.
    pub(super) async fn plant(&mut self) -> BTreeSet<(FindingKind, String)> {
        self.plant_messages().await;
        self.plant_entries().await;
        self.bare.command(&[b"HSET", b"~shift:endless", b"token", b"t"]).await;
        let [far, farther] = [self.bucket_of("rings").await, self.bucket_of("body-gone").await];
        self.bare.command(&[b"ZREM", b"~alarms", far.as_bytes()]).await;
        use FindingKind::{
            Malformed, NoAlarm, NoDeadEntry, NoExpiryEntry, NoGroupEntry, NoLease, NoMarkerEntry, NoPlace,
            NoShiftEnd, NoTurn, StaleEntry,
        };
        let messages = [
            (NoPlace, "lost-ready"),
            (NoPlace, "lost-delayed"),
            (NoLease, "unleased"),
            (NoDeadEntry, "undead"),
            (NoMarkerEntry, "remembered"),
            (NoGroupEntry, "alone"),
            (NoExpiryEntry, "undying"),
            (Malformed, "tiny"),
        ];
        let messages = messages.map(|(kind, id)| (kind, format!("m {id}")));
        let entries = [farther, "g:gone".into(), "expiries".into(), "leases".into(), "d:1".into()];
        let entries = entries.into_iter().map(|index| (StaleEntry, format!("{index} body-gone")));
        let markers = ["markers nothing", "ends e:"].map(|entry| (StaleEntry, entry.to_owned()));
        let indexes = [format!("{far} "), "e:9999999999998 ".to_owned()].map(|index| (NoAlarm, index));
        let shifts = [(NoShiftEnd, "shift:endless ".to_owned())];
        let turns = [(NoTurn, "p:1:late ".to_owned())];
        let all = messages.into_iter().chain(entries).chain(markers).chain(indexes);
        all.chain(shifts).chain(turns).collect()
    }

    async fn plant_messages(&mut self) {
        for id in ["unleased", "undead"] {
            self.put(self.message(id)).await;
        }
        for found in self.reserve().await {
            if found.id == own("undead") {
                Holder::new(self.client.clone())
                    .bury(&[(found.receipt, "of no use".to_owned())])
                    .await
                    .remove(0)
                    .unwrap();
            }
        }
        self.take_out("leases", "unleased").await;
        self.take_out("d:1", "undead").await;
        self.put(self.message("lost-ready")).await;
        for id in ["lost-delayed", "remembered"] {
            self.put(self.message(id).after(FAR)).await;
        }
        self.put(self.message("rings").after(2 * FAR)).await;
        self.put(self.message("alone").after(FAR).group("crew").unwrap()).await;
        self.put(self.message("undying").after(FAR).expires(NEVER)).await;
        self.producer.cancel(&self.stuck, &own("remembered").into()).await.unwrap();
        // Its entry has another gen, and its time is long past.
        self.bare.command(&[b"SETRANGE", b"~m:1:remembered", b"4", b"gone"]).await;
        self.bare.command(&[b"SETRANGE", b"~m:1:remembered", b"16", &[0; 8]]).await;
        self.take_out("r:1", "lost-ready").await;
        let bucket = self.bucket_of("lost-delayed").await;
        self.take_out(&bucket, "lost-delayed").await;
        self.put(self.message("parked").group("late").unwrap()).await;
        let parked = self.entries("r:1", "parked").await.remove(0);
        self.take_out("r:1", "parked").await;
        self.bare.command(&[b"RPUSH", b"~p:1:late", &parked]).await;
        self.bare.command(&[b"ZADD", b"~k:1", b"1", b"late"]).await;
        self.take_out("g:crew", "alone").await;
        self.take_out("expiries", "undying").await;
    }

    async fn plant_entries(&mut self) {
        let gone = self.message("body-gone-1").after(4 * FAR).group("gone").unwrap().expires(NEVER);
        self.put(gone).await;
        self.put(self.message("body-gone-2")).await;
        self.put(self.message("body-gone-3")).await;
        for found in self.reserve().await {
            if found.id == own("body-gone-3") {
                Holder::new(self.client.clone())
                    .bury(&[(found.receipt, "of no use".to_owned())])
                    .await
                    .remove(0)
                    .unwrap();
            }
        }
        for id in ["body-gone-1\u{1f}gone", "body-gone-2", "body-gone-3"] {
            self.delete(&format!("m:1:{id}")).await;
        }
        self.bare.command(&[b"ZADD", b"~markers", b"9999999999999", b"1:nothing"]).await;
        self.bare.command(&[b"ZADD", b"~alarms", b"9999999999999", b"markers"]).await;
        self.bare.command(&[b"ZADD", b"~ends", b"9999999999999", b"e:9999999999999"]).await;
        self.bare.command(&[b"RPUSH", b"~e:9999999999998", b"1:nobody\0\0\0\0"]).await;
        self.put(self.message("tiny")).await;
        self.bare.command(&[b"SET", b"~m:1:tiny", b"tiny"]).await;
    }
}
