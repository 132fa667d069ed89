//! [`Linux`]: a bridge and a network namespace on this machine, through netlink.
//!
//! ```text
//! sn-3f9a0c17e2b4    bridge, with the address of the gateway; its alias is the mark
//! └ sv-3f9a0c17e2b4  veth ─── eth0 in the namespace /run/netns/sn-3f9a0c17e2b4
//! ```
//!
//! The name of an interface has at most 15 bytes. It contains a hash of the [`Mark`], and the mark is
//! the alias of the bridge, and of `lo` in the namespace. A bridge is created without its alias, which
//! is set afterwards, but with a group: all interfaces of this operator have the group [`GROUP`].
//!
//! The namespace is created first and deleted last, and `lo` has the alias before the namespace has a
//! name. So an operator that ends in between leaves a namespace, by which the rest is found. An
//! interface without the group and a namespace without the alias belong to somebody else: they are
//! reported and not touched.

mod namespace;
mod netlink;

use std::fmt;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use ring::digest::{SHA256, digest};
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::link::{InfoData, InfoKind, InfoVeth};
use rtnetlink::{LinkBridge, LinkUnspec, LinkVeth};

use super::{Backend, BackendError, ClusterName, Desired, Mark, Plan};
use namespace::NamespaceState;
use netlink::{Link, Netlink, addresses, connected, link, links, netlink_error};
use runtime::Request;

/// The group of all interfaces of this operator: `SAMP`.
pub const GROUP: u32 = 0x5341_4d50;

/// Where namespaces have names, as with `ip netns`.
const NAMESPACES: &str = "/run/netns";

/// What the names of bridges and namespaces begin with.
const PREFIX: &str = "sn-";

/// The interface in a namespace.
const PEER: &str = "eth0";

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Linux {
    namespaces: PathBuf,
}

impl Default for Linux {
    fn default() -> Self {
        Self { namespaces: NAMESPACES.into() }
    }
}

/// The names of a Network's parts.
struct Names {
    bridge: String,
    veth: String,
    namespace: PathBuf,
}

impl Names {
    fn new(mark: &Mark, namespaces: &Path) -> Self {
        let hash = digest(&SHA256, mark.as_str().as_bytes());
        let hash =
            hash.as_ref().iter().take(6).fold(0_u64, |hash, byte| hash << 8 | u64::from(*byte));
        let bridge = format!("{PREFIX}{hash:012x}");
        Self { namespace: namespaces.join(&bridge), veth: format!("sv-{hash:012x}"), bridge }
    }
}

/// A change on this machine.
#[derive(Debug)]
pub enum Change {
    /// The namespace is missing.
    CreateNamespace,
    /// The bridge is missing.
    CreateBridge,
    /// A bridge has no alias, since the operator ended after it was created, or is down.
    ConfigureBridge(u32),
    /// The gateway has no address.
    AddAddress(u32, IpNet),
    /// An address is not the one of the gateway.
    RemoveAddress(IpNet, Box<AddressMessage>),
    /// The bridge and the namespace are not connected.
    Connect(u32),
    /// An interface should not exist, or not as it is.
    DeleteInterface(String, u32),
    /// The namespace should not exist.
    DeleteNamespace,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateNamespace => write!(f, "created namespace"),
            Self::CreateBridge => write!(f, "created bridge"),
            Self::ConfigureBridge(_) => write!(f, "configured bridge"),
            Self::AddAddress(_, address) => write!(f, "added address {address}"),
            Self::RemoveAddress(address, _) => write!(f, "removed address {address}"),
            Self::Connect(_) => write!(f, "connected bridge and namespace"),
            Self::DeleteInterface(name, _) => write!(f, "deleted interface {name}"),
            Self::DeleteNamespace => write!(f, "deleted namespace"),
        }
    }
}

impl Change {
    /// What is to be done, for an error.
    fn operation(&self, names: &Names) -> String {
        let (bridge, namespace) = (&names.bridge, names.namespace.display());
        match self {
            Self::CreateNamespace => format!("create the namespace {namespace}"),
            Self::CreateBridge => format!("create the bridge {bridge}"),
            Self::ConfigureBridge(_) => format!("configure the bridge {bridge}"),
            Self::AddAddress(_, address) => {
                format!("add the address {address} to the bridge {bridge}")
            }
            Self::RemoveAddress(address, _) => {
                format!("remove the address {address} from the bridge {bridge}")
            }
            Self::Connect(_) => {
                format!("connect the bridge {bridge} and the namespace {namespace}")
            }
            Self::DeleteInterface(name, _) => format!("delete the interface {name}"),
            Self::DeleteNamespace => format!("delete the namespace {namespace}"),
        }
    }
}

/// What this machine has of a Network.
struct Observed {
    namespace: NamespaceState,
    bridge: Option<Link>,
    veth: Option<Link>,
    /// The addresses of the bridge.
    addresses: Vec<(IpNet, AddressMessage)>,
}

impl Linux {
    async fn observe(&self, mark: &Mark, names: &Names) -> Result<Observed, BackendError> {
        let namespace = namespace::state(&names.namespace, mark).await?;
        if namespace == NamespaceState::Foreign {
            let what = format!("there is a namespace {}", names.namespace.display());
            return Err(BackendError::Foreign(what));
        }
        connected(async |netlink| {
            let bridge = link(&netlink, &names.bridge).await?;
            let veth = link(&netlink, &names.veth).await?;
            for (link, kind) in [(&bridge, InfoKind::Bridge), (&veth, InfoKind::Veth)] {
                let Some(link) = link else { continue };
                let is_ours = link.kind == Some(kind)
                    && link.group == GROUP
                    && link.alias.as_deref().is_none_or(|alias| alias == mark.as_str());
                if !is_ours {
                    let what = format!("there is an interface {}", link.name);
                    return Err(BackendError::Foreign(what));
                }
            }
            let addresses = match &bridge {
                Some(bridge) => addresses(&netlink, bridge.index).await?,
                None => Vec::new(),
            };
            Ok(Observed { namespace, bridge, veth, addresses })
        })
        .await
    }
}

impl Observed {
    fn changes_to(self, desired: &Desired) -> Vec<Change> {
        let mut changes = Vec::new();
        let has_namespace = self.namespace == NamespaceState::Ours;
        if !has_namespace {
            changes.push(Change::CreateNamespace);
        }
        let Some(bridge) = self.bridge else {
            changes.push(Change::CreateBridge);
            return changes;
        };
        if bridge.alias.is_none() || !bridge.is_up {
            changes.push(Change::ConfigureBridge(bridge.index));
        }
        let wanted = desired.gateway_on_link();
        let has_address = self.addresses.iter().any(|(address, _)| *address == wanted);
        let others = self.addresses.into_iter().filter(|(address, _)| *address != wanted);
        changes.extend(
            others.map(|(address, message)| Change::RemoveAddress(address, Box::new(message))),
        );
        if !has_address {
            changes.push(Change::AddAddress(bridge.index, wanted));
        }
        let is_connected =
            |veth: &Link| veth.controller == Some(bridge.index) && veth.is_up && veth.has_peer;
        match self.veth {
            // One whose namespace somebody has deleted may exist for some time, even with its peer.
            Some(veth) if has_namespace && is_connected(&veth) => {}
            Some(veth) => changes.extend([
                Change::DeleteInterface(veth.name, veth.index),
                Change::Connect(bridge.index),
            ]),
            None => changes.push(Change::Connect(bridge.index)),
        }
        changes
    }

    fn deletions(self) -> Vec<Change> {
        let links = [self.veth, self.bridge].into_iter().flatten();
        let mut changes: Vec<_> =
            links.map(|link| Change::DeleteInterface(link.name, link.index)).collect();
        if self.namespace != NamespaceState::Missing {
            changes.push(Change::DeleteNamespace);
        }
        changes
    }
}

impl Backend for Linux {
    type Change = Change;

    async fn plan(
        &self,
        mark: &Mark,
        desired: Option<&Desired>,
    ) -> Result<Plan<Change>, BackendError> {
        let names = Names::new(mark, &self.namespaces);
        let observed = self.observe(mark, &names).await?;
        let Some(desired) = desired else {
            return Ok(Plan { changes: observed.deletions(), ids: [].into() });
        };
        let namespace = names.namespace.display().to_string();
        let ids = [("bridge", names.bridge), ("namespace", namespace)];
        let ids = ids.into_iter().map(|(part, id)| (part.to_owned(), id)).collect();
        Ok(Plan { changes: observed.changes_to(desired), ids })
    }

    async fn make(&self, mark: &Mark, change: &Change) -> Result<(), BackendError> {
        let names = Names::new(mark, &self.namespaces);
        match change {
            Change::CreateNamespace => namespace::create(&names.namespace, mark).await,
            Change::DeleteNamespace => namespace::delete(&names.namespace).await,
            _ => {
                connected(async |netlink| make(&netlink, &names, mark, change).await).await?;
                match change {
                    // The end of a veth cannot be up before it has the other one.
                    Change::Connect(_) => namespace::set_up(&names.namespace, PEER).await,
                    _ => Ok(()),
                }
            }
        }
    }

    async fn keys(&self, cluster: &ClusterName) -> Result<Vec<Request>, BackendError> {
        let mut marks = namespace::marks(&self.namespaces, PREFIX).await?;
        let links = connected(async |netlink| links(&netlink).await).await?;
        let ours = links.into_iter().filter(|link| link.group == GROUP);
        marks.extend(ours.filter_map(|link| link.alias));
        let mut keys: Vec<_> = marks.iter().filter_map(|mark| cluster.key_of(mark)).collect();
        keys.sort();
        keys.dedup();
        Ok(keys)
    }
}

/// Makes a change of interfaces.
async fn make(
    netlink: &Netlink,
    names: &Names,
    mark: &Mark,
    change: &Change,
) -> Result<(), BackendError> {
    let made = match change {
        Change::CreateBridge => {
            let bridge = LinkBridge::new(&names.bridge).link_group(GROUP).build();
            netlink.link().add(bridge).execute().await
        }
        Change::ConfigureBridge(index) => {
            let bridge = LinkUnspec::new_with_index(*index).alias(mark.as_str()).up().build();
            netlink.link().set(bridge).execute().await
        }
        Change::AddAddress(index, address) => {
            let (ip, prefix): (IpAddr, u8) = (address.addr(), address.prefix_len());
            netlink.address().add(*index, ip, prefix).execute().await
        }
        Change::RemoveAddress(_, address) => {
            netlink.address().del(AddressMessage::clone(address)).execute().await
        }
        Change::Connect(bridge) => {
            let namespace = std::fs::File::open(&names.namespace).map_err(|error| {
                let path = names.namespace.display();
                BackendError::Conflict(format!("cannot open the namespace {path}: {error}"))
            })?;
            let peer = LinkUnspec::new_with_name(PEER).setns_by_fd(namespace.as_raw_fd());
            let peer = InfoData::Veth(InfoVeth::Peer(peer.build()));
            let veth = LinkVeth::new(&names.veth, PEER).set_info_data(peer);
            let veth = veth.link_group(GROUP).controller(*bridge).up().build();
            netlink.link().add(veth).execute().await
        }
        Change::DeleteInterface(_, index) => netlink.link().del(*index).execute().await,
        Change::CreateNamespace | Change::DeleteNamespace => Ok(()),
    };
    made.map_err(netlink_error(change.operation(names)))
}
