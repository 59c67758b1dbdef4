//! The identity that a shard records: assigned once, compared at each claim.

use crate::lab::Lab;
use crate::snapshot::lossy;
use delayq::protocol::Verb;

const ONE: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "fedcba9876543210fedcba9876543210";

async fn answer(lab: &mut Lab, verb: Verb, args: &[&str]) -> String {
    match lab.shard.call(verb, args).await {
        Ok(words) => words.first().map(|word| lossy(word)).unwrap_or_default(),
        Err(error) => error,
    }
}

#[tokio::test]
async fn the_first_identity_that_a_shard_is_given_stays() {
    let mut lab = Lab::new().await;
    for (given, answered) in [("", ""), (ONE, ONE), (OTHER, ONE), ("", ONE), (ONE, ONE)] {
        assert_eq!(answer(&mut lab, Verb::Identify, &[given]).await, answered, "{given:?}");
    }
    let said = lab.shard.call(Verb::Layout, &[] as &[&[u8]]).await.unwrap();
    assert_eq!(lossy(&said[4]), ONE);
}

#[tokio::test]
async fn a_malformed_identity_is_refused_by_name_and_not_kept() {
    let mut lab = Lab::new().await;
    let before = lab.shard.snapshot().await;
    for odd in ["0", "x", &ONE.to_uppercase(), &ONE[1..], "0123456789abcdef0123456789abcdeg"] {
        let refused = answer(&mut lab, Verb::Identify, &[odd]).await;
        assert!(refused.starts_with("DQARG the identity must be 32"), "{odd}: {refused}");
    }
    assert_eq!(lab.shard.snapshot().await, before);
}

#[tokio::test]
async fn a_claim_by_a_timer_of_another_deployment_is_refused_and_changes_nothing() {
    let mut lab = Lab::new().await;
    assert_eq!(answer(&mut lab, Verb::Claim, &["one", "0", ONE]).await, "claimed", "the shard has none");
    answer(&mut lab, Verb::Identify, &[ONE]).await;
    let before = lab.shard.snapshot().await;
    for lock in ["0", "1000", "orphaned"] {
        let refused = answer(&mut lab, Verb::Claim, &["two", lock, OTHER]).await;
        let known = format!("DQDEPLOYMENT {ONE} is the deployment of ");
        assert!(refused.starts_with(&known) && refused.ends_with(&format!(", not {OTHER}")), "{refused}");
    }
    assert_eq!(lab.shard.snapshot().await, before);
    for identity in ["", ONE] {
        assert_eq!(answer(&mut lab, Verb::Claim, &["two", "0", identity]).await, "claimed");
    }
}
