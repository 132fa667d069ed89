//! Replicas with different CA certificates that inject them into the same configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube_client::api::{DeleteParams, PostParams};
use kube_client::{Api, Client};
use serde_json::json;

use crate::faulty::{FaultyClient, RequestOutcome};
use crate::plane::{Plane, certificate_options};
use crate::world::until;
use keel::Clock;
use runtime::webhook::{Certificates, InjectionTarget};

const SECRET: &str = "hook-certificates";

/// A replica with a clock of its own, whose writes to configurations are counted.
struct Replica {
    certificates: Certificates,
    clock: Clock,
    writes: Arc<AtomicUsize>,
}

impl Replica {
    async fn start(plane: &Plane) -> Self {
        let faulty = FaultyClient::new(plane.env.server().in_process_client());
        let writes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&writes);
        faulty.decide(move |method, target| {
            let is_write = *method == Method::PUT && target.contains("webhookconfigurations");
            counted.fetch_add(usize::from(is_write), Ordering::Relaxed);
            RequestOutcome::Served
        });
        let (client, clock) = (Client::new(faulty, "default"), Clock::manual(plane.clock.now()));
        let options = certificate_options();
        let (entropy, tasks) = (&plane.entropy, &plane.tasks);
        let certificates =
            Certificates::start(client, options, &clock, entropy, tasks).await.unwrap();
        certificates.inject(InjectionTarget::Validating("ours".to_owned()));
        Self { certificates, clock, writes }
    }

    fn bundle(&self) -> String {
        self.certificates.bundle().borrow().clone()
    }
}

fn configurations(plane: &Plane) -> Api<ValidatingWebhookConfiguration> {
    plane.all()
}

async fn configure(plane: &Plane) {
    let webhook = |name: &str| {
        json!({"name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:9/"}})
    };
    let configuration = json!({"metadata": {"name": "ours"},
        "webhooks": [webhook("a.example.com"), webhook("b.example.com")]});
    let configuration = serde_json::from_value(configuration).unwrap();
    configurations(plane).create(&PostParams::default(), &configuration).await.unwrap();
}

/// The bundle of both webhooks; empty if they differ.
async fn injected(plane: &Plane) -> String {
    let webhooks = configurations(plane).get("ours").await.unwrap().webhooks.unwrap();
    let bundles = webhooks.into_iter().map(|it| it.client_config.ca_bundle.unwrap_or_default().0);
    let bundles: Vec<String> = bundles.map(|it| String::from_utf8(it).unwrap()).collect();
    if bundles[0] == bundles[1] { bundles[0].clone() } else { String::new() }
}

#[tokio::test]
async fn replicas_with_different_cas_do_not_overwrite_each_other() {
    let plane = Plane::start().await;
    configure(&plane).await;
    let first = Replica::start(&plane).await;
    let second = Replica::start(&plane).await;
    let old = first.bundle();
    until("it is injected", async || injected(&plane).await == old).await;
    plane.api::<Secret>().delete(SECRET, &DeleteParams::default()).await.unwrap();
    // Creates a CA of its own, which the other replicas find only in the configuration.
    let third = Replica::start(&plane).await;
    let new = third.bundle();
    assert_ne!(new, old);
    let replicas = [first, second, third];
    let pass = |duration| replicas.iter().for_each(|it| it.clock.advance(duration));
    until("all replicas know the new CA", async || {
        pass(Duration::from_millis(10));
        replicas.iter().all(|it| it.bundle() == new)
    })
    .await;
    until("both are trusted", async || {
        let both = injected(&plane).await;
        both.contains(&new) && both.contains(&old)
    })
    .await;

    pass(Duration::from_mins(21));
    until("the old CA is removed", async || {
        pass(Duration::from_millis(10));
        injected(&plane).await == new
    })
    .await;
    let writes = replicas.iter().map(|it| it.writes.load(Ordering::Relaxed)).sum::<usize>();
    assert!(writes <= 12, "{writes} writes");
}

#[tokio::test]
async fn repeated_changes_of_a_configuration_are_reverted_with_growing_delays() {
    let plane = Plane::start().await;
    configure(&plane).await;
    let replica = Replica::start(&plane).await;
    let ours = replica.bundle();
    for n in 1..=4 {
        let begun = replica.clock.now();
        until("it is injected", async || {
            let is_injected = injected(&plane).await == ours;
            if !is_injected {
                replica.clock.advance(Duration::from_millis(10));
            }
            is_injected
        })
        .await;
        let took = replica.clock.now().since(begun);
        let least = Duration::from_millis(if n == 1 { 0 } else { 50 << (n - 1) });
        assert!(took >= least, "{n}: {took:?}");
        let mut found = configurations(&plane).get("ours").await.unwrap();
        for webhook in found.webhooks.iter_mut().flatten() {
            webhook.client_config.ca_bundle = None;
        }
        configurations(&plane).replace("ours", &PostParams::default(), &found).await.unwrap();
    }
}
