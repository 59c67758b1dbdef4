//! Irreversible actions are shown first and must be confirmed.

use super::{delayq, deployment, done, run};
use delayq_tests::deadline::SHORT;

#[tokio::test]
async fn nothing_is_purged_or_grown_without_a_yes() {
    let redis = deployment().await;
    for id in ["a", "b"] {
        done(&redis, &["put", "t", "{}", "--id", id, "--at", "2100-01-01T00:00:00Z"]).await;
    }
    for (args, what) in [
        (&["purge", "t"][..], "this permanently deletes 2 delayed messages of t"),
        (
            &["purge", "t", "--until", "2100-01-01T00:00:00Z"],
            "2 delayed messages of t, due up to 2100-01-01T00:00:00.000Z,",
        ),
        (
            &["purge", "t", "--from", "2100-01-01T00:00:00.001Z"],
            "this permanently deletes 0 delayed messages of t, due from",
        ),
        (&["purge", "t", "--state", "ready"], "this permanently deletes 0 ready messages of t"),
        (&["promote", "t"], "this makes 2 delayed messages of t ready now"),
        (&["promote", "-g", "g"], "this makes every delayed message of group g ready now"),
        (&["dead", "purge", "t"], "this permanently deletes the dead letters of t: 0 in total"),
        (&["shards", "grow", "--to", "6"], "this adds 2 shards to the 4 of dq; shards can never be removed"),
    ] {
        let refused = run(&redis, args).await;
        assert_eq!(refused.code, Some(64), "{args:?}: {refused:?}");
        assert!(refused.stderr.starts_with("delayq: DQ-U016: "), "{args:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains(what) && refused.stderr.contains("--yes"),
            "{args:?}: {}",
            refused.stderr
        );
        let (asked, no) = delayq(&redis).args(args).asked("n\n", SHORT).await;
        assert!(asked.contains(what) && asked.contains("Continue? [y/N]"), "{args:?}: {asked}");
        assert_eq!(no, Some(64), "{args:?}: {asked}");
    }
    assert!(done(&redis, &["count", "t", "--json"]).await.contains("\"delayed\": 2,"));
    let (asked, yes) = delayq(&redis).args(["purge", "t"]).asked("y\n", SHORT).await;
    assert_eq!(yes, Some(0), "{asked}");
    assert!(done(&redis, &["count", "t", "--json"]).await.contains("\"purged\": 2,"));
    let (asked, yes) = delayq(&redis).args(["shards", "grow", "--to", "6"]).asked("yes\n", SHORT).await;
    assert!(yes == Some(0) && asked.contains("there are 6 shards now"), "{asked}");
}
