//! The operator on this machine, in a network namespace and with a `/run` of the test's own.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use futures_util::TryStreamExt;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::geteuid;
use rtnetlink::packet_route::address::{AddressAttribute, AddressScope};
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::{Handle, IpVersion, LinkBridge, LinkUnspec, RouteMessageBuilder, new_connection};
use serde_json::{Value, json};

use crate::installation::LIMIT;
use crate::walk::{declared, walk};
use crate::world::{World, cluster, desired, mark, until};
use network_operator::backend::linux::{GROUP, Linux};
use network_operator::backend::{Backend, BackendError, Desired, Ids, Mark};
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

/// The interfaces but `lo`: the index, the name and the alias.
async fn interfaces(netlink: &Handle) -> Vec<(u32, String, String)> {
    let (lo, found) = interfaces_and_lo(netlink).await;
    assert_eq!(lo, "", "that of the host has no alias");
    found
}

/// The alias of `lo`, and the other interfaces.
async fn interfaces_and_lo(netlink: &Handle) -> (String, Vec<(u32, String, String)>) {
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
    assert_eq!(lo.len(), 1);
    (lo[0].2.clone(), found)
}

/// Calls `body` in a thread in the namespace of this name.
fn inside<T: Send + 'static>(
    name: &str,
    body: impl AsyncFnOnce(Handle) -> T + Send + 'static,
) -> T {
    let file = fs::File::open(format!("/run/netns/{name}")).unwrap();
    let work = move || {
        setns(file, CloneFlags::CLONE_NEWNET).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (connection, netlink, _) = new_connection().unwrap();
            tokio::select! {
                result = body(netlink) => result,
                () = connection => unreachable!("netlink was closed"),
            }
        })
    };
    std::thread::spawn(work).join().unwrap()
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

/// The bridges of this operator: `[name, cidr, gateway]`. Each is in a namespace of its own.
fn found() -> Vec<Value> {
    let mut found: Vec<_> = namespaces()
        .iter()
        .map(|namespace| {
            let (lo, interfaces, addresses) = inside(namespace, async |netlink| {
                let (lo, interfaces) = interfaces_and_lo(&netlink).await;
                let addresses = addresses(&netlink, interfaces[0].0).await;
                (lo, interfaces, addresses)
            });
            let network = lo.strip_prefix(&mark("")).expect("the mark");
            assert_eq!((interfaces.len(), interfaces[0].1.as_str()), (1, "br0"), "{network}");
            assert_eq!(addresses.len(), 1, "{network}: {addresses:?}");
            let gateway: ipnet::IpNet = addresses[0].parse().unwrap();
            json!([network, gateway.trunc().to_string(), gateway.addr().to_string()])
        })
        .collect();
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
        assert_eq!(found(), declared);
        assert_eq!(interfaces(&netlink).await, others);
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
        assert_eq!(found(), right);

        let namespace = namespaces().remove(0);
        inside(&namespace, async |netlink| {
            let bridge = interfaces_and_lo(&netlink).await.1[0].0;
            let other = "10.7.0.1".parse().unwrap();
            netlink.address().add(bridge, other, 24).execute().await.unwrap();
            let down = LinkUnspec::new_with_index(bridge).down().build();
            netlink.link().set(down).execute().await.unwrap();
        });
        restart(&mut world).await; // as a resync, but at once
        assert_eq!(found(), right);
        world.wait_for_event("a", "Drifted", "set bridge up; removed address 10.7.0.1/24").await;

        inside(&namespace, async |netlink| {
            let bridge = interfaces_and_lo(&netlink).await.1[0].0;
            netlink.link().del(bridge).execute().await.unwrap();
        });
        restart(&mut world).await;
        assert_eq!(found(), right);

        rtnetlink::NetworkNamespace::del(&namespace).await.unwrap();
        restart(&mut world).await;
        assert_eq!(found(), right);
        world.delete("a").await;
        until("the namespace is deleted", async || namespaces().is_empty()).await;
        assert!(interfaces(&netlink).await.is_empty());
        world.stop().await;
    });
}

/// The routes of the host that `ip route` shows, and those to its own addresses.
async fn routes(netlink: &Handle) -> usize {
    let mut count = 0;
    for version in [IpVersion::V4, IpVersion::V6] {
        let routes = match version {
            IpVersion::V4 => RouteMessageBuilder::<Ipv4Addr>::new().build(),
            IpVersion::V6 => RouteMessageBuilder::<Ipv6Addr>::new().build(),
        };
        let routes: Vec<_> = netlink.route().get(routes).execute().try_collect().await.unwrap();
        count += routes.len();
    }
    count
}

#[test]
fn a_network_changes_no_address_and_no_route_of_the_host() {
    isolated("the routes of the host", |netlink| async move {
        netlink.link().add(LinkBridge::new("up0").up().build()).execute().await.unwrap();
        let uplink = interfaces(&netlink).await[0].0;
        let own = "10.200.0.2".parse().unwrap();
        netlink.address().add(uplink, own, 24).execute().await.unwrap();
        let before = (interfaces(&netlink).await, routes(&netlink).await);
        assert!(before.1 > 0);

        let backend = Linux::default();
        // The gateway of the host, an address of the Internet, and the network of the host.
        for (name, cidr, gateway) in [
            ("a", "10.200.0.1/32", "10.200.0.1"),
            ("b", "8.0.0.0/8", "8.8.8.8"),
            ("c", "10.200.0.0/24", "10.200.0.2"),
        ] {
            let mark = Mark::new(&cluster(), &Request::new("default", name)).unwrap();
            converge(&backend, &mark, Some(&desired(cidr, gateway))).await;
        }
        assert_eq!(found().len(), 3);
        assert_eq!((interfaces(&netlink).await, routes(&netlink).await), before);
    });
}

#[test]
fn the_bridge_of_an_earlier_version_is_removed_from_the_host() {
    isolated("a bridge of an earlier version", |netlink| async move {
        let backend = Linux::default();
        let create = async |name: &str| {
            let mark = Mark::new(&cluster(), &Request::new("default", name)).unwrap();
            let wanted = desired("10.0.0.0/24", "10.0.0.1");
            let namespace =
                backend.plan(&mark, Some(&wanted), &Ids::new()).await.unwrap().ids["namespace"]
                    .rsplit_once('/')
                    .unwrap()
                    .1
                    .to_owned();
            let bridge = LinkBridge::new(&namespace).link_group(GROUP).build();
            netlink.link().add(bridge).execute().await.unwrap();
            let bridge = LinkUnspec::new_with_name(&namespace).alias(mark.as_str()).build();
            netlink.link().set(bridge).execute().await.unwrap();
            (mark, wanted)
        };
        let (mark, wanted) = create("a").await;
        converge(&backend, &mark, Some(&wanted)).await;
        assert!(interfaces(&netlink).await.is_empty());
        assert_eq!(found(), [json!(["a", "10.0.0.0/24", "10.0.0.1"])]);

        // Its Network was deleted meanwhile.
        let (mark, _) = create("b").await;
        let keys = ["a", "b"].map(|name| Request::new("default", name));
        assert_eq!(backend.keys(&cluster()).await.unwrap(), keys);
        converge(&backend, &mark, None).await;
        assert!(interfaces(&netlink).await.is_empty());
    });
}

/// Makes changes until there is nothing left to change.
async fn converge(backend: &Linux, mark: &Mark, desired: Option<&Desired>) {
    for change in backend.plan(mark, desired, &Ids::new()).await.unwrap().changes {
        backend.make(mark, &change).await.unwrap();
    }
    let left = backend.plan(mark, desired, &Ids::new()).await.unwrap().changes;
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_ipv6_network_is_created_changed_and_deleted_on_this_machine() {
    if !Path::new("/proc/sys/net/ipv6").exists() {
        return crate::skipped::skip("IPv6 on Linux", "a kernel with IPv6");
    }
    isolated("IPv6 on Linux", |netlink| async move {
        let backend = Linux::default();
        let mark = Mark::new(&cluster(), &Request::new("default", "a")).unwrap();
        for (cidr, gateway) in [("fd00:1::/64", "fd00:1::1"), ("fd00:1::/64", "fd00:1::9")] {
            converge(&backend, &mark, Some(&desired(cidr, gateway))).await;
            assert_eq!(found(), [json!(["a", cidr, gateway])]);
        }
        // The kernel removes IPv6 addresses from an interface that is down.
        inside(&namespaces()[0], async |netlink| {
            let bridge = interfaces_and_lo(&netlink).await.1[0].0;
            let down = LinkUnspec::new_with_index(bridge).down().build();
            netlink.link().set(down).execute().await.unwrap();
        });
        converge(&backend, &mark, Some(&desired("fd00:1::/64", "fd00:1::9"))).await;
        assert_eq!(found(), [json!(["a", "fd00:1::/64", "fd00:1::9"])]);
        converge(&backend, &mark, None).await;
        assert!(interfaces(&netlink).await.is_empty() && namespaces().is_empty());
    });
}

async fn restart<B: Backend>(world: &mut World<B>) {
    world.kill_operator().await;
    world.start_operator();
    world.settle().await;
}

#[test]
fn a_namespace_and_a_bridge_of_somebody_else_with_the_same_name_are_not_touched() {
    isolated("a foreign namespace on Linux", |netlink| async move {
        let backend = Linux::default();
        let mark = Mark::new(&cluster(), &Request::new("default", "a")).unwrap();
        let wanted = desired("10.0.0.0/24", "10.0.0.1");
        let path =
            backend.plan(&mark, Some(&wanted), &Ids::new()).await.unwrap().ids["namespace"].clone();
        let name = path.strip_prefix("/run/netns/").unwrap();
        rtnetlink_namespace(name);
        let is_foreign = async |desired| {
            let plan = backend.plan(&mark, desired, &Ids::new()).await;
            assert!(matches!(plan, Err(BackendError::Foreign(_))), "{plan:?}");
        };
        is_foreign(Some(&wanted)).await;
        is_foreign(None).await;
        rtnetlink::NetworkNamespace::del(name).await.unwrap();

        // In the namespace of the Network.
        let creation = backend.plan(&mark, Some(&wanted), &Ids::new()).await.unwrap().changes;
        backend.make(&mark, &creation[0]).await.unwrap();
        inside(name, async |netlink| {
            netlink.link().add(LinkBridge::new("br0").build()).execute().await.unwrap();
        });
        is_foreign(Some(&wanted)).await;
        is_foreign(None).await;

        // An interface of the host does not matter.
        let mark = Mark::new(&cluster(), &Request::new("default", "b")).unwrap();
        let path =
            backend.plan(&mark, Some(&wanted), &Ids::new()).await.unwrap().ids["namespace"].clone();
        let name = path.strip_prefix("/run/netns/").unwrap();
        assert!(name.len() <= 15);
        netlink.link().add(LinkBridge::new(name).build()).execute().await.unwrap();
        converge(&backend, &mark, Some(&wanted)).await;
        converge(&backend, &mark, None).await;
        assert_eq!(interfaces(&netlink).await.len(), 1);
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

/// The first `ip netns add` of a machine binds the directory over itself.
#[test]
fn a_namespace_can_be_deleted_after_the_directory_became_a_shared_mount() {
    isolated("deletion in a shared directory", |_| async move {
        let backend = Linux::default();
        let mark = Mark::new(&cluster(), &Request::new("default", "a")).unwrap();
        converge(&backend, &mark, Some(&desired("10.0.0.0/24", "10.0.0.1"))).await;

        let (none, directory) = (None::<&str>, Path::new("/run/netns"));
        let share = || mount(none, directory, none, MsFlags::MS_REC | MsFlags::MS_SHARED, none);
        if share().is_err() {
            let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
            mount(Some(directory), directory, none, bind, none).unwrap();
            share().unwrap();
        }
        converge(&backend, &mark, None).await;
        assert!(namespaces().is_empty());
    });
}
