//! Tenants in a real Redis.

use super::*;
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::RedisServer;

fn hash_of(token: &str) -> Hash {
    Sha256::digest(token).into()
}

#[tokio::test]
async fn a_rotation_that_began_before_a_revocation_brings_no_token_back() {
    let deployment = Deployment::on(RedisServer::start().await, 1).await;
    let (tenants, acme): (_, Tenant) = (Tenants::new(deployment.admin.clone()), "acme".parse().unwrap());
    let note = TokenNote {
        name: "shop".to_owned(),
        hash: String::new(),
        rights: vec!["put".to_owned()],
        until_ms: None,
        made_ms: 7,
    };
    let (id, token) = tenants.add(&acme, note).await.unwrap();
    let read = tenants.of(&acme).await.unwrap().tokens[&id].clone();
    let later = UnixMillis::new(host_now().get() + 3_600_000);
    let (_, next) = tenants.rotate(&acme, (&id, &read), later).await.unwrap();
    assert!(tenants.token(&hash_of(&token)).await.unwrap().is_some(), "the overlap runs");
    tenants.revoke(&acme, &id).await.unwrap();
    assert!(tenants.token(&hash_of(&token)).await.unwrap().is_none());
    tenants.rotate(&acme, (&id, &read), later).await.unwrap();
    assert!(tenants.token(&hash_of(&token)).await.unwrap().is_none(), "it is revoked");
    assert!(tenants.token(&hash_of(&next)).await.unwrap().is_some());
    tenants.remove(&acme).await.unwrap();
    let (_, texts) = deployment.admin.gateways().tenants().await.unwrap();
    assert_eq!(texts, BTreeMap::new(), "the ends of rotations are removed as well");
}
