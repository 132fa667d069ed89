//! Objects of other projects in Neutron, and several networks with the same mark.

use serde_json::{Map, Value, json};

use crate::keystone_server::{Servers, mark_of, network, subnet};
use crate::world::{cluster, desired};
use network_operator::backend::neutron::Neutron;
use network_operator::backend::{Backend, BackendError, Desired, Ids};
use runtime::Request;

/// A Neutron with these objects.
async fn neutron(networks: &[Value], subnets: &[Value]) -> (Servers, Neutron) {
    let servers = Servers::start().await;
    let neutron = Neutron::new(&servers.application_credential()).unwrap();
    set(&servers, networks, subnets);
    (servers, neutron)
}

fn set(servers: &Servers, networks: &[Value], subnets: &[Value]) {
    let mut exchange = servers.exchange.lock().unwrap();
    (exchange.networks, exchange.subnets) = (networks.to_vec(), subnets.to_vec());
}

/// The changes of a plan for the Network `a`, and the network that it keeps.
async fn plan(neutron: &Neutron, desired: Option<&Desired>, known: &str) -> (Vec<String>, String) {
    let known = Ids::from([("network".to_owned(), known.to_owned())]);
    let mut plan = neutron.plan(&mark_of("a"), desired, &known).await.unwrap();
    let changes = plan.changes.iter().map(ToString::to_string).collect();
    (changes, plan.ids.remove("network").unwrap_or_default())
}

/// The object with other fields.
fn with(mut object: Value, fields: Value) -> Value {
    let fields: Map<String, Value> = serde_json::from_value(fields).unwrap();
    object.as_object_mut().unwrap().extend(fields);
    object
}

#[tokio::test]
async fn a_network_of_another_project_is_not_touched_whatever_its_mark() {
    let theirs = json!({"project_id": "theirs", "created_at": "2020-01-01T00:00:00Z"});
    let theirs = with(network("theirs", "a"), theirs);
    let nobodys = with(network("nobodys", "a"), json!({"project_id": null}));
    let ours = with(network("ours", "a"), json!({"created_at": "2026-01-01T00:00:00Z"}));
    let subnet = with(subnet("a"), json!({"network_id": "ours"}));
    let all = [theirs.clone(), nobodys.clone(), ours];
    let (servers, neutron) = neutron(&all, &[subnet]).await;
    let wanted = desired("10.0.0.0/24", "10.0.0.1");
    for known in ["ours", "theirs", ""] {
        let expected = (Vec::new(), "ours".to_owned());
        assert_eq!(plan(&neutron, Some(&wanted), known).await, expected);
    }
    assert_eq!(plan(&neutron, None, "").await.0, ["deleted network ours"]);
    neutron.keys(&cluster()).await.unwrap();
    assert_eq!(plan(&neutron, Some(&wanted), "").await, (Vec::new(), "ours".to_owned()));
    let requests = std::mem::take(&mut servers.exchange.lock().unwrap().requests);
    let networks = requests.iter().filter(|sent| sent.uri.contains("/networks?"));
    assert!(networks.clone().count() > 0);
    assert!(networks.clone().all(|sent| sent.uri.contains("project_id=ours&")));

    set(&servers, &[theirs, nobodys], &[]);
    assert_eq!(plan(&neutron, Some(&wanted), "theirs").await.0, ["created network"]);
    assert_eq!(plan(&neutron, None, "theirs").await.0, [""; 0]);
    assert_eq!(neutron.keys(&cluster()).await.unwrap(), Vec::<Request>::new());
}

#[tokio::test]
async fn of_several_networks_the_reported_one_is_kept_and_made_before_others_are_deleted() {
    let old = with(network("old", "a"), json!({"created_at": "2020-01-01T00:00:00Z"}));
    let new = with(network("new", "a"), json!({"created_at": "2026-01-01T00:00:00Z"}));
    let both = [old, new];
    let (servers, neutron) = neutron(&both, &[]).await;
    let wanted = desired("10.0.0.0/24", "10.0.0.1");
    for (known, kept, other) in [("new", "new", "old"), ("", "old", "new"), ("x", "old", "new")] {
        set(&servers, &both, &[]);
        let creation = vec!["created subnet 10.0.0.0/24 with gateway 10.0.0.1".to_owned()];
        assert_eq!(plan(&neutron, Some(&wanted), known).await, (creation, kept.to_owned()));
        set(&servers, &both, &[with(subnet("a"), json!({"network_id": kept}))]);
        let deletion = vec![format!("deleted network {other}")];
        assert_eq!(plan(&neutron, Some(&wanted), known).await, (deletion, kept.to_owned()));
    }
}

#[tokio::test]
async fn a_subnet_of_another_project_is_not_touched_and_its_network_stays() {
    let theirs = json!({"id": "theirs", "network_id": "ours", "project_id": "theirs",
        "gateway_ip": "10.0.0.9"});
    let subnets = [with(subnet("a"), json!({"network_id": "ours"})), with(subnet("a"), theirs)];
    let (_servers, neutron) = neutron(&[network("ours", "a")], &subnets).await;
    let wanted = desired("10.0.0.0/24", "10.0.0.1");
    assert_eq!(plan(&neutron, Some(&wanted), "ours").await.0, [""; 0]);
    let deletion = neutron.plan(&mark_of("a"), None, &Ids::new()).await;
    assert!(matches!(deletion, Err(BackendError::Foreign(_))), "{deletion:?}");
}

#[tokio::test]
async fn a_token_without_a_project_is_refused() {
    let (servers, neutron) = neutron(&[], &[]).await;
    servers.exchange.lock().unwrap().has_no_project = true;
    let refused = neutron.keys(&cluster()).await.unwrap_err().to_string();
    assert_eq!(refused, "refused: the token of Keystone has no project");
}
