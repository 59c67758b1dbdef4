//! Topics without users.

use crate::stand::Stand;
use delayq::{Admin, Topic};
use delayq_service::config::HumanDuration;
use delayq_timer::TimerConfig;

/// Enough shards that the timer asks one of them each second.
const SHARDS: u16 = 64;

async fn make_quiet(stand: &Stand, topic: &str) {
    let two_days_ago = stand.now_ms().await - 2 * 86_400_000;
    for shard in 0..SHARDS {
        let [meta, no] = [format!("{{dq:{shard}}}:meta"), format!("topic:{topic}")];
        let no: Option<u32> = stand.server.command(&["HGET", &meta, &no]).await;
        if let Some(no) = no {
            let key = format!("{{dq:{shard}}}:t:{no}");
            let () = stand.server.command(&["HSET", &key, "quiet", &format!("0 {two_days_ago}")]).await;
        }
    }
}

async fn declare(stand: &Stand, topic: &str) {
    let (admin, topic) = (Admin::new(stand.client.clone()), Topic::new(topic).unwrap());
    admin.topic(&topic).pause().await.unwrap();
    admin.topic(&topic).resume().await.unwrap();
}

async fn known(stand: &Stand, topic: &str) -> bool {
    let topics = Admin::new(stand.client.clone()).topics().await.unwrap();
    topics.iter().any(|known| known.as_str() == topic)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_forgets_a_quiet_topic_and_no_other() {
    let stand = Stand::new(SHARDS).await;
    let far = stand.now_ms().await + 3_600_000;
    stand.put((0..500).map(|n| far + n)).await;
    for topic in ["quiet", "fresh"] {
        declare(&stand, topic).await;
    }
    for topic in ["quiet", "notices"] {
        make_quiet(&stand, topic).await;
    }
    let timer = stand.timer().await;
    timer.exceeds("delayq_timer_topics_forgotten_total", 1.5).await;
    let holds: Vec<u64> = stand.server.command(&["HMGET", "{dq:0}:meta", "topics", "topic:notices"]).await;
    assert_eq!(holds, [3, 1], "a number is not given out again, and what holds messages stays");
    let left: Option<u32> = stand.server.command(&["HGET", "{dq:0}:meta", "topic:quiet"]).await;
    assert_eq!(left, None, "the first shard is asked first");
    assert!(known(&stand, "fresh").await && known(&stand, "notices").await);
    timer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_is_told_to_keep_topics_forgets_none() {
    let stand = Stand::new(SHARDS).await;
    // Due when the timer would have asked the first shards.
    let count = stand.put([stand.now_ms().await + 4_000]).await;
    declare(&stand, "quiet").await;
    make_quiet(&stand, "quiet").await;
    let config = TimerConfig { forget_topics_after: HumanDuration::from_secs(0), ..TimerConfig::default() };
    let timer = stand.timer_with(config, "one").await;
    stand.all_ready(count).await;
    assert!(timer.metric("delayq_timer_topics_forgotten_total") < 0.5 && known(&stand, "quiet").await);
    timer.stop().await;
}
