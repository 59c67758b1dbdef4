//! A full spool: each message has its own answer.

use super::{FAR, Host, drain, message, target, topic};
use delayq::{CancelOutcome, Error, Message, Producer, ProducerOptions, PutError, PutOutcome};
use delayq_spool::{SpoolSettings, SpoolWriter};
use std::sync::Arc;

/// The smallest spool: room for two large messages, each once in the log and once in the database.
const SETTINGS: SpoolSettings = SpoolSettings { max_bytes: 1 << 20 };
const LARGE: usize = 200_000;

fn producer(host: &Host) -> Producer {
    let spool = SpoolWriter::open(host.folder.path(), &SETTINGS).unwrap();
    Producer::start(host.deployment.client.clone(), ProducerOptions::default().spool(Arc::new(spool)))
}

fn large(id: &str) -> Message {
    Message::new(topic(), vec![b'x'; LARGE]).id(id).unwrap().at(FAR)
}

fn is_refused(error: &PutError) -> bool {
    matches!(&error.error, Error::Spool { refusal, outage: Some(_) } if refusal.why.contains("full"))
}

#[tokio::test]
async fn of_a_full_spool_each_message_has_its_own_answer_and_none_overtakes_a_refused_one() {
    let mut host = Host::start().await;
    let producer = producer(&host);
    host.deployment.server.kill().await;
    let puts = vec![large("a"), large("b"), large("c"), message("d"), message("c").replace()];
    let answers = producer.put_many(puts).await;
    let spooled = |n: usize| answers[n].as_ref().is_ok_and(|put| put.outcome == PutOutcome::Spooled);
    assert!([0, 1, 3].into_iter().all(spooled), "{answers:?}");
    assert!([2, 4].into_iter().all(|n| answers[n].as_ref().is_err_and(is_refused)), "{answers:?}");
    // The remaining room takes a cancel.
    assert_eq!(producer.cancel(&topic(), &target("a")).await.unwrap(), CancelOutcome::Spooled);

    host.deployment.server.resume().await;
    assert_eq!(drain(&mut host.resubmitter().await).await.resubmitted, 4);
    for (id, exists) in [("a", true), ("b", true), ("c", false), ("d", true)] {
        let present = host.present(message(id)).await;
        assert_eq!(!matches!(present, PutOutcome::Stored(_)), exists, "{id}: {present:?}");
    }
}
