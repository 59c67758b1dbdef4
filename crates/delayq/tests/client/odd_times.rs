//! Times in another unit than milliseconds, on every way into delayq.

use delayq::admin::{ListState, PurgeWhat, ReplayOptions, TimeRange};
use delayq::protocol::OddTime;
use delayq::{
    Consumer, ConsumerOptions, Due, Error, Message, MessageError, Reschedule, RescheduleOutcome, Target,
    Topic, UnixMillis,
};
use delayq_tests::deployment::Deployment;
use std::time::Duration;

/// 2027, in milliseconds, in seconds and in microseconds.
const MS: UnixMillis = UnixMillis::new(1_800_000_000_000);
const ODD: [UnixMillis; 2] = [UnixMillis::new(1_800_000_000), UnixMillis::new(1_800_000_000_000_000)];

fn odd<T: std::fmt::Debug>(answer: Result<T, Error>) -> OddTime {
    match answer {
        Err(Error::Time(odd) | Error::Message(MessageError::Time(odd))) => odd,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn seconds_and_microseconds_are_not_taken_for_milliseconds_wherever_a_time_comes_in() {
    let Deployment { server: _server, client, producer, admin } = Deployment::new(1).await;
    let topic = Topic::new("orders").unwrap();
    let message = || Message::new(topic.clone(), "x").after(Duration::from_secs(3600)).id("a").unwrap();
    let target = Target::from(producer.put(message()).await.unwrap().reference);
    for at in ODD {
        let due = OddTime { what: "the due time", at };
        assert_eq!(odd(producer.put(message().at(at)).await.map_err(|refused| refused.error)), due);
        let expiry = producer.put(message().expires(at)).await.map_err(|refused| refused.error);
        assert_eq!(odd(expiry), OddTime { what: "the expiry", at });
        for change in [Reschedule::To(Due::At(at)), Reschedule::ToIfDue(Due::At(at), MS)] {
            let sound = Reschedule::To(Due::At(MS));
            let changes = [change, sound].map(|change| (target.clone(), change));
            let [refused, moved] = producer.reschedule_many(&topic, &changes).await.try_into().unwrap();
            assert_eq!(odd(refused), due);
            assert!(matches!(moved, Ok(RescheduleOutcome::Moved { due: MS, .. })), "{moved:?}");
        }
        for range in [TimeRange { from: at, ..TimeRange::ALL }, TimeRange { to: at, ..TimeRange::ALL }] {
            assert_eq!(odd(admin.topic(&topic).list(ListState::Delayed, range, 1).await).at, at);
            assert_eq!(odd(admin.topic(&topic).histogram(range, Duration::from_secs(60)).await).at, at);
            assert_eq!(odd(admin.topic(&topic).purge(PurgeWhat::Delayed(range), |_| {}).await).at, at);
            assert_eq!(odd(admin.topic(&topic).replay(&ReplayOptions::default().died(range)).await).at, at);
        }
        let options = ConsumerOptions::new([topic.clone()]).promote_until(at);
        let refused = Consumer::start(client.clone(), options).map(drop);
        assert_eq!(odd(refused), OddTime { what: "promote_until", at });
        let meant = producer.put(message().id("meant").unwrap().at(at).replace().any_time()).await.unwrap();
        assert!(meant.outcome.is_accepted(), "{meant:?}");
    }
    assert_eq!(admin.topic(&topic).count().await.unwrap().purged, 0);
}
