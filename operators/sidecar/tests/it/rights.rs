//! The rights of the service account: all other tests run with them; these are the ones it must not have.

use crate::requests::{CONFIG_MAPS, PODS};
use crate::world::World;
use sidecar_operator::Mode;

/// Checks that the service account may not get these paths.
async fn check(mode: Mode, forbidden: &[&str]) {
    let world = World::start(mode).await;
    let account = world.service_account();
    for path in forbidden {
        assert_eq!(account.get(path).await.map_err(|refusal| refusal.code), Err(403), "{path}");
    }
    drop(account);
    world.stop().await;
}

const SECRETS: &str = "/api/v1/namespaces/operators/secrets";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

#[tokio::test]
async fn the_webhook_reads_neither_pods_nor_other_objects() {
    check(Mode::Webhook, &[PODS, CONFIG_MAPS, SECRETS, WEBHOOKS]).await;
}

#[tokio::test]
async fn the_initializer_reads_pods_and_nothing_else() {
    let own = &format!("{SECRETS}/sidecar-webhooks-certificates");
    check(Mode::Initializer, &[CONFIG_MAPS, SECRETS, own, WEBHOOKS]).await;
}

#[tokio::test]
async fn the_operator_of_the_policy_reads_no_pods() {
    check(Mode::Policy, &[PODS, CONFIG_MAPS, SECRETS, WEBHOOKS]).await;
}
