//! The operator with a real Neutron.

use http::Method;
use serde_json::{Value, json};

use crate::installation::LIMIT;
use crate::neutron_server::NeutronServer;
use crate::walk::{declared, walk};
use crate::world::{RESYNC, World, cluster, desired, mark, until};
use network_operator::backend::{Backend, BackendError, Desired, Ids, Mark};
use runtime::Request;
use testenv::TestEnv;

/// Neutron works on one request at a time; this number takes less than a minute.
const CHANGES: usize = 200;

/// The description of a network of another cluster's operator.
const FOREIGN: &str = "samplecrd.k8s.io:another-cluster:default:n1";

/// The networks of this operator with their subnets: `[name, cidr, gateway]`.
async fn found(server: &NeutronServer) -> Vec<Value> {
    let networks = server.list("networks").await;
    let mut subnets = server.list("subnets").await;
    let mut found = Vec::new();
    let is_ours = |network: &&Value| network["description"] != FOREIGN && network["name"] != "n1";
    for network in networks.iter().filter(is_ours) {
        let name = network["name"].as_str().unwrap().strip_prefix("default/").unwrap();
        let expected = (json!(mark(name)), json!([mark(name)]));
        assert_eq!((&network["description"], &network["tags"]), (&expected.0, &expected.1));
        let ours = subnets.extract_if(.., |subnet| subnet["network_id"] == network["id"]);
        let ours: Vec<_> = ours.collect();
        assert_eq!(ours.len(), 1, "{name}: {ours:?}");
        assert_eq!((&ours[0]["description"], &ours[0]["tags"]), (&expected.0, &expected.1));
        found.push(json!([name, ours[0]["cidr"], ours[0]["gateway_ip"]]));
    }
    assert_eq!(subnets.len(), 2, "those of others: {subnets:?}");
    found.sort_by_key(|network| network[0].to_string());
    found
}

fn sorted(mut declared: Vec<Value>) -> Vec<Value> {
    declared.sort_by_key(|network| network[0].to_string());
    declared
}

#[tokio::test]
async fn a_random_walk_leaves_exactly_the_declared_networks_in_neutron() {
    let Some(server) = NeutronServer::start("the walk in Neutron") else { return };
    server.create_foreign("default/n1", FOREIGN, "10.1.0.0/24").await;
    server.create_foreign("n1", "", "10.1.1.0/24").await;
    let others = (server.list("networks").await, server.list("subnets").await);
    let world = walk(7, CHANGES, server.backend()).await;
    assert_eq!(found(&server).await, sorted(declared(&world).await));

    for name in world.declared().await.keys() {
        world.delete(name).await;
    }
    world.settle().await;
    assert_eq!((server.list("networks").await, server.list("subnets").await), others);
    world.stop().await;
}

#[tokio::test]
async fn drift_in_neutron_is_put_right() {
    let Some(server) = NeutronServer::start("drift in Neutron") else { return };
    let mut world = World::with(TestEnv::builder().system_clock(), server.backend()).await;
    world.start_operator();
    world.create("a", "10.0.0.0/24", "10.0.0.1").await;
    world.settle().await;
    let state = async || {
        let (network, subnet) = (server.list("networks").await, server.list("subnets").await);
        let parts = [&network[0]["name"], &network[0]["tags"], &network[0]["admin_state_up"]];
        let parts = parts.into_iter().chain([&subnet[0]["gateway_ip"], &subnet[0]["tags"]]);
        parts.cloned().collect::<Vec<_>>()
    };
    let right = state().await;
    let (network, subnet) = (server.list("networks").await, server.list("subnets").await);
    let network = format!("networks/{}", network[0]["id"].as_str().unwrap());
    let subnet = format!("subnets/{}", subnet[0]["id"].as_str().unwrap());

    let wrong = json!({"network": {"name": "b", "description": "b", "admin_state_up": false}});
    server.send(Method::PUT, &network, &wrong).await;
    server.send(Method::PUT, &subnet, &json!({"subnet": {"gateway_ip": null}})).await;
    server.send(Method::DELETE, &format!("{subnet}/tags"), &Value::Null).await;
    assert_ne!(state().await, right);
    restart(&mut world).await; // as a resync, but at once
    assert_eq!(state().await, right);
    world.wait_for_event("a", "Drifted", "set the gateway of subnet").await;

    server.send(Method::DELETE, &network, &Value::Null).await;
    restart(&mut world).await;
    assert_eq!(state().await, right);

    // A subnet of somebody else is not deleted with the network.
    let network = server.list("networks").await[0]["id"].clone();
    let theirs = json!({"subnet": {"network_id": network, "cidr": "10.9.0.0/24", "ip_version": 4}});
    let theirs = server.send(Method::POST, "subnets", &theirs).await;
    world.delete("a").await;
    world.wait_for_event("a", "Failed", "which this operator has not made").await;
    assert_eq!(server.list("networks").await.len(), 1);
    let theirs = format!("subnets/{}", theirs["subnet"]["id"].as_str().unwrap());
    server.send(Method::DELETE, &theirs, &Value::Null).await;
    restart(&mut world).await;
    until("the network is deleted", async || server.list("networks").await.is_empty()).await;
    world.stop().await;
}

async fn restart<B: Backend>(world: &mut World<B>) {
    world.kill_operator().await;
    world.start_operator();
    world.manager().settled(LIMIT).await.unwrap();
}

#[tokio::test]
async fn what_is_declared_while_neutron_is_stopped_is_made_when_it_is_back() {
    let Some(mut server) = NeutronServer::start("Neutron stopped and back") else { return };
    server.create_foreign("default/n1", FOREIGN, "10.1.0.0/24").await;
    server.create_foreign("n1", "", "10.1.1.0/24").await;
    let mut world = World::new(server.backend()).await;
    world.start_operator();
    for (name, cidr, gateway) in
        [("changed", "10.0.0.0/24", "10.0.0.1"), ("deleted", "10.0.1.0/24", "10.0.1.1")]
    {
        world.create(name, cidr, gateway).await;
    }
    world.settle().await;

    server.stop();
    let changed = json!({"cidr": "10.0.2.0/24", "gateway": "10.0.2.1"});
    world.change("changed", &changed).await;
    world.create("created", "10.0.3.0/24", "10.0.3.1").await;
    world.delete("deleted").await;
    for name in ["changed", "created"] {
        world.wait_until_ready_is(name, "False BackendUnavailable").await;
    }
    world.wait_for_event("deleted", "Failed", "Connection refused").await;
    assert!(world.networks().get_opt("deleted").await.unwrap().is_some());

    server.start_again();
    world.env.advance(RESYNC);
    world.settle().await;
    for name in ["changed", "created"] {
        assert_eq!(world.ready(name).await, "True InSync");
    }
    assert!(world.networks().get_opt("deleted").await.unwrap().is_none());
    assert_eq!(found(&server).await, sorted(declared(&world).await));
    world.stop().await;
}

#[tokio::test]
async fn a_change_between_plan_and_act_is_not_overwritten() {
    let Some(server) = NeutronServer::start("revisions in Neutron") else { return };
    let backend = server.backend();
    let mark = Mark::new(&cluster(), &Request::new("default", "a")).unwrap();
    let wanted = desired("10.0.0.0/24", "10.0.0.1");
    for _ in 0..3 {
        for change in backend.plan(&mark, Some(&wanted), &Ids::new()).await.unwrap().changes {
            backend.make(&mark, &change).await.unwrap();
        }
    }
    assert!(backend.plan(&mark, Some(&wanted), &Ids::new()).await.unwrap().changes.is_empty());

    let deletion = backend.plan(&mark, None, &Ids::new()).await.unwrap().changes;
    assert_eq!(deletion.len(), 1);
    let network = server.list("networks").await[0]["id"].as_str().unwrap().to_owned();
    let renamed = json!({"network": {"name": "somebody else has a use for it"}});
    server.send(Method::PUT, &format!("networks/{network}"), &renamed).await;
    let refused = backend.make(&mark, &deletion[0]).await;
    assert!(matches!(refused, Err(BackendError::Conflict(_))), "{refused:?}");
    assert_eq!(server.list("networks").await.len(), 1);

    // Two networks with the same mark, and one without a tag: the operator has ended in between.
    let cut_off = json!({"network": {"name": "default/a", "description": mark.as_str()}});
    server.send(Method::POST, "networks", &cut_off).await;
    for _ in 0..3 {
        for change in backend.plan(&mark, Some(&wanted), &Ids::new()).await.unwrap().changes {
            backend.make(&mark, &change).await.unwrap();
        }
    }
    let left = server.list("networks").await;
    assert_eq!((left.len(), left[0]["id"].as_str()), (1, Some(network.as_str())));
}

/// Makes changes until there is nothing left to change.
async fn converge(backend: &impl Backend, mark: &Mark, desired: Option<&Desired>) {
    for _ in 0..5 {
        for change in backend.plan(mark, desired, &Ids::new()).await.unwrap().changes {
            backend.make(mark, &change).await.unwrap();
        }
    }
    assert!(backend.plan(mark, desired, &Ids::new()).await.unwrap().changes.is_empty());
}

#[tokio::test]
async fn an_update_of_an_older_revision_is_a_conflict_and_changes_nothing() {
    let Some(server) = NeutronServer::start("updates in Neutron") else { return };
    let backend = server.backend();
    let mark = Mark::new(&cluster(), &Request::new("default", "a")).unwrap();
    let wanted = desired("10.0.0.0/24", "10.0.0.1");
    converge(&backend, &mark, Some(&wanted)).await;
    for (kind, theirs) in
        [("network", json!({"admin_state_up": false})), ("subnet", json!({"name": "b"}))]
    {
        let path = server.list(&format!("{kind}s")).await[0]["id"].clone();
        let path = format!("{kind}s/{}", path.as_str().unwrap());
        server.send(Method::PUT, &path, &json!({kind: theirs})).await;
        let wanted = if kind == "subnet" { desired("10.0.0.0/24", "10.0.0.9") } else { wanted };
        let changes = backend.plan(&mark, Some(&wanted), &Ids::new()).await.unwrap().changes;
        server.send(Method::PUT, &path, &json!({kind: {"description": "of them"}})).await;
        let before = server.list(&format!("{kind}s")).await;
        let refused = backend.make(&mark, &changes[0]).await;
        assert!(matches!(refused, Err(BackendError::Conflict(_))), "{refused:?}");
        assert_eq!(server.list(&format!("{kind}s")).await, before);
        // What is planned now is accepted.
        converge(&backend, &mark, Some(&wanted)).await;
    }
}

#[tokio::test]
async fn an_ipv6_network_is_created_changed_and_deleted_in_neutron() {
    let Some(server) = NeutronServer::start("IPv6 in Neutron") else { return };
    let backend = server.backend();
    let mark = Mark::new(&cluster(), &Request::new("default", "a")).unwrap();
    for (cidr, gateway) in [
        ("fd00:1::/64", "fd00:1::1"),
        ("fd00:1::/64", "fd00:1::9"),
        ("fd00:2::/64", "fd00:2::ffff:ffff:ffff:ffff"),
    ] {
        converge(&backend, &mark, Some(&desired(cidr, gateway))).await;
        let subnets = server.list("subnets").await;
        let found = [&subnets[0]["cidr"], &subnets[0]["gateway_ip"], &subnets[0]["ip_version"]];
        assert_eq!((subnets.len(), found), (1, [&json!(cidr), &json!(gateway), &json!(6)]));
    }
    converge(&backend, &mark, None).await;
    assert!(server.list("networks").await.is_empty());
}

#[tokio::test]
async fn a_list_of_neutron_is_read_page_by_page() {
    let Some(server) = NeutronServer::start_with_small_pages("pages of Neutron") else { return };
    let backend = server.backend();
    let expected: Vec<_> =
        ["a", "b", "c", "d", "e"].map(|name| Request::new("default", name)).into();
    for key in &expected {
        let mark = Mark::new(&cluster(), key).unwrap();
        server.create_foreign(key.name(), mark.as_str(), "10.0.0.0/24").await;
    }
    assert_eq!(backend.keys(&cluster()).await.unwrap(), expected);
}
