//! The operator on this machine, in a network namespace and with a `/run` of the test's own.

use std::fs;
use std::path::Path;

use futures_util::TryStreamExt;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;
use rtnetlink::packet_route::address::{AddressAttribute, AddressScope};
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::{Handle, LinkBridge, LinkUnspec, new_connection};
use serde_json::{Value, json};

use crate::installation::LIMIT;
use crate::walk::{declared, walk};
use crate::world::{World, cluster, desired, mark, until};
use network_operator::backend::linux::Linux;
use network_operator::backend::{Backend, BackendError, Desired, Mark};
use runtime::Request;
use runtime::keel::Tasks;
use testenv::TestEnv;

const CHANGES: usize = 200;

/// Runs a test in a thread whose interfaces, mounts and names of namespaces nobody else sees.
fn isolated<F: Future<Output = ()>>(test: &str, body: impl FnOnce(Handle) -> F + Send + 'static) {
    if !geteuid().is_root() {
        return crate::skipped::skip(test, "root");
    }
    let work = move || {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).unwrap();
        let (none, private) = (None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE);
        mount(none, "/", none, private, none).unwrap();
        mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), none).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (connection, netlink, _) = new_connection().unwrap();
            let tasks = Tasks::new();
            tasks.spawn("netlink", connection);
            let lo = LinkUnspec::new_with_name("lo").up().build();
            netlink.link().set(lo).execute().await.unwrap();
            body(netlink).await;
            let _ = tasks.stop(LIMIT).await;
        });
    };
    std::thread::spawn(work).join().unwrap();
}

/// The interfaces but `lo`: the name and the alias.
async fn interfaces(netlink: &Handle) -> Vec<(u32, String, String)> {
    let links: Vec<_> = netlink.link().get().execute().try_collect().await.unwrap();
    let mut found = Vec::new();
    for link in links {
        let (mut name, mut alias) = (String::new(), String::new());
        for attribute in link.attributes {
            match attribute {
                LinkAttribute::IfName(text) => name = text,
                LinkAttribute::IfAlias(text) => alias = text,
                _ => {}
            }
        }
        found.push((link.header.index, name, alias));
    }
    let is_lo = |(_, name, _): &mut (u32, String, String)| name == "lo";
    let lo: Vec<_> = found.extract_if(.., is_lo).collect();
    assert_eq!((lo.len(), lo[0].2.as_str()), (1, ""), "that of the machine has no alias");
    found
}

/// The addresses of an interface, without those that are valid on the link only.
async fn addresses(netlink: &Handle, index: u32) -> Vec<String> {
    let found = netlink.address().get().set_link_index_filter(index).execute();
    let found: Vec<_> = found.try_collect().await.unwrap();
    let found = found.into_iter().filter(|message| {
        message.header.index == index && message.header.scope != AddressScope::Link
    });
    let found = found.map(|message| {
        // That of an IPv6 interface is no local address.
        let address = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(address) | AddressAttribute::Address(address) => Some(*address),
            _ => None,
        });
        format!("{}/{}", address.unwrap(), message.header.prefix_len)
    });
    found.collect()
}

fn namespaces() -> Vec<String> {
    let entries = fs::read_dir("/run/netns").map(|entries| {
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    });
    let mut names: Vec<String> = entries.unwrap_or_default();
    names.sort();
    names
}

/// The bridges of this operator: `[name, cidr, gateway]`. Each has a namespace, and a veth to it.
async fn found(netlink: &Handle) -> Vec<Value> {
    let interfaces = interfaces(netlink).await;
    let mut found = Vec::new();
    let mut names = Vec::new();
    for (index, name, alias) in interfaces.iter().filter(|(_, name, _)| name.starts_with("sn-")) {
        let network = alias.strip_prefix(&mark("")).expect("an alias");
        let addresses = addresses(netlink, *index).await;
        assert_eq!(addresses.len(), 1, "{network}: {addresses:?}");
        let gateway: ipnet::IpNet = addresses[0].parse().unwrap();
        let (cidr, gateway) = (gateway.trunc().to_string(), gateway.addr().to_string());
        found.push(json!([network, cidr, gateway]));
        names.push(name.clone());
    }
    names.sort();
    assert_eq!(namespaces(), names);
    let veths = interfaces.iter().filter(|(_, name, _)| name.starts_with("sv-")).count();
    assert_eq!(veths, names.len());
    found.sort_by_key(|network| network[0].to_string());
    found
}

#[test]
fn a_random_walk_leaves_exactly_the_declared_bridges() {
    isolated("the walk on Linux", |netlink| async move {
        let foreign = LinkBridge::new("br-foreign").build();
        netlink.link().add(foreign).execute().await.unwrap();
        let index = interfaces(&netlink).await[0].0;
        let address = "10.1.1.1".parse().unwrap();
        netlink.address().add(index, address, 24).execute().await.unwrap();
        let others = interfaces(&netlink).await;

        let world = walk(7, CHANGES, Linux::default()).await;
        let mut declared = declared(&world).await;
        declared.sort_by_key(|network| network[0].to_string());
        assert_eq!(found(&netlink).await, declared);
        for name in world.declared().await.keys() {
            world.delete(name).await;
        }
        world.settle().await;
        assert_eq!(interfaces(&netlink).await, others);
        assert_eq!(addresses(&netlink, index).await, ["10.1.1.1/24"]);
        assert!(namespaces().is_empty());
        world.stop().await;
    });
}

#[test]
fn drift_on_this_machine_is_put_right() {
    isolated("drift on Linux", |netlink| async move {
        let builder = TestEnv::builder().system_clock();
        let mut world = World::with(builder, Linux::default()).await;
        world.start_operator();
        world.create("a", "10.0.0.0/24", "10.0.0.1").await;
        world.settle().await;
        let right = vec![json!(["a", "10.0.0.0/24", "10.0.0.1"])];
        assert_eq!(found(&netlink).await, right);

        let bridge = interfaces(&netlink).await;
        let bridge = bridge.iter().find(|(_, name, _)| name.starts_with("sn-")).unwrap().clone();
        let other = "10.7.0.1".parse().unwrap();
        netlink.address().add(bridge.0, other, 24).execute().await.unwrap();
        let down = LinkUnspec::new_with_index(bridge.0).down().build();
        netlink.link().set(down).execute().await.unwrap();
        restart(&mut world).await; // as a resync, but at once
        assert_eq!(found(&netlink).await, right);
        world.wait_for_event("a", "Drifted", "removed address 10.7.0.1/24").await;

        netlink.link().del(bridge.0).execute().await.unwrap();
        restart(&mut world).await;
        assert_eq!(found(&netlink).await, right);

        rtnetlink::NetworkNamespace::del(&bridge.1).await.unwrap();
        restart(&mut world).await;
        assert_eq!(found(&netlink).await, right);
        world.delete("a").await;
        until("the bridge is deleted", async || interfaces(&netlink).await.is_empty()).await;
        world.stop().await;
    });
}

#[test]
fn an_ipv6_network_is_created_changed_and_deleted_on_this_machine() {
    if !Path::new("/proc/sys/net/ipv6").exists() {
        return crate::skipped::skip("IPv6 on Linux", "a kernel with IPv6");
    }
    isolated("IPv6 on Linux", |netlink| async move {
        let backend = Linux::default();
        let mark = Mark::new(&cluster(), &Request::new("default", "a")).unwrap();
        let converge = async |desired: Option<&Desired>| {
            for _ in 0..5 {
                for change in backend.plan(&mark, desired).await.unwrap().changes {
                    backend.make(&mark, &change).await.unwrap();
                }
            }
            assert!(backend.plan(&mark, desired).await.unwrap().changes.is_empty());
        };
        for (cidr, gateway) in [("fd00:1::/64", "fd00:1::1"), ("fd00:1::/64", "fd00:1::9")] {
            converge(Some(&desired(cidr, gateway))).await;
            assert_eq!(found(&netlink).await, [json!(["a", cidr, gateway])]);
        }
        // The kernel removes IPv6 addresses from an interface that is down.
        let (bridge, ..) = interfaces(&netlink).await[0];
        let down = LinkUnspec::new_with_index(bridge).down().build();
        netlink.link().set(down).execute().await.unwrap();
        converge(Some(&desired("fd00:1::/64", "fd00:1::9"))).await;
        assert_eq!(found(&netlink).await, [json!(["a", "fd00:1::/64", "fd00:1::9"])]);
        converge(None).await;
        assert!(interfaces(&netlink).await.is_empty() && namespaces().is_empty());
    });
}

async fn restart<B: Backend>(world: &mut World<B>) {
    world.kill_operator().await;
    world.start_operator();
    world.settle().await;
}

#[test]
fn an_interface_of_somebody_else_with_the_same_name_is_not_touched() {
    isolated("a foreign interface on Linux", |netlink| async move {
        let backend = Linux::default();
        let mark = Mark::new(&cluster(), &Request::new("default", "a")).unwrap();
        let wanted = desired("10.0.0.0/24", "10.0.0.1");
        let name = backend.plan(&mark, Some(&wanted)).await.unwrap().ids["bridge"].clone();
        assert!(name.len() <= 15);
        netlink.link().add(LinkBridge::new(&name).build()).execute().await.unwrap();
        for desired in [Some(&wanted), None] {
            let plan = backend.plan(&mark, desired).await;
            assert!(matches!(plan, Err(BackendError::Foreign(_))), "{plan:?}");
        }
        assert_eq!(interfaces(&netlink).await.len(), 1);
        let index = interfaces(&netlink).await[0].0;
        netlink.link().del(index).execute().await.unwrap();

        // The same for a namespace.
        rtnetlink_namespace(&name);
        for desired in [Some(&wanted), None] {
            let plan = backend.plan(&mark, desired).await;
            assert!(matches!(plan, Err(BackendError::Foreign(_))), "{plan:?}");
        }
    });
}

/// Makes a namespace with a name, as `ip netns add` does.
fn rtnetlink_namespace(name: &str) {
    let path = format!("/run/netns/{name}");
    std::thread::spawn(move || {
        fs::create_dir_all("/run/netns").unwrap();
        fs::write(&path, "").unwrap();
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let (none, own) = (None::<&str>, Some("/proc/thread-self/ns/net"));
        mount(own, path.as_str(), none, MsFlags::MS_BIND, none).unwrap();
    })
    .join()
    .unwrap();
}
