//! [`Linux`]: a network namespace on this machine with a bridge in it, through netlink.
//!
//! ```text
//! /run/netns/sn-3f9a0c17e2b4    the namespace; the alias of its `lo` is the mark
//! └ br0                         the bridge, with the address of the gateway
//! ```
//!
//! The bridge is not in the namespace of the host. Users choose the CIDR of a Network freely, and it
//! must not change an address or a route of the host.
//!
//! The name of the namespace contains a hash of the [`Mark`]. The namespace is created first and deleted
//! last, and `lo` has the alias before the namespace has a name. So an operator that ends in between
//! leaves a namespace, by which the rest is found. A namespace without the alias and a `br0` without
//! the group [`GROUP`] belong to somebody else: they are reported and not touched.
//!
//! Earlier versions made the bridge `sn-3f9a0c17e2b4` and the veth `sv-3f9a0c17e2b4` in the namespace of
//! the host. They have the group too, and are deleted.

mod namespace;
mod netlink;

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use ring::digest::{SHA256, digest};
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::link::InfoKind;
use rtnetlink::{LinkBridge, LinkUnspec};

use super::{Backend, BackendError, ClusterName, Desired, Ids, Mark, Plan};
use namespace::NamespaceState;
use netlink::{Link, Netlink, addresses, connected, link, links, netlink_error};
use runtime::Request;

/// The group of all interfaces of this operator: `SAMP`.
pub const GROUP: u32 = 0x5341_4d50;

/// Where namespaces have names, as with `ip netns`.
const NAMESPACES: &str = "/run/netns";

/// What the names of namespaces begin with.
const PREFIX: &str = "sn-";

/// The bridge in a namespace.
const BRIDGE: &str = "br0";

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
    namespace: PathBuf,
    /// What earlier versions made in the namespace of the host.
    host_interfaces: [(String, InfoKind); 2],
}

impl Names {
    fn new(mark: &Mark, namespaces: &Path) -> Self {
        let hash = digest(&SHA256, mark.as_str().as_bytes());
        let hash =
            hash.as_ref().iter().take(6).fold(0_u64, |hash, byte| hash << 8 | u64::from(*byte));
        let namespace = format!("{PREFIX}{hash:012x}");
        Self {
            namespace: namespaces.join(&namespace),
            host_interfaces: [
                (format!("sv-{hash:012x}"), InfoKind::Veth),
                (namespace, InfoKind::Bridge),
            ],
        }
    }
}

/// A change on this machine.
#[derive(Debug, Clone)]
pub enum Change {
    /// The namespace is missing.
    CreateNamespace,
    /// The bridge is missing.
    CreateBridge,
    /// The bridge is down.
    SetBridgeUp,
    /// The gateway has no address.
    AddAddress(IpNet),
    /// An address is not the one of the gateway.
    RemoveAddress(IpNet, Box<AddressMessage>),
    /// The bridge should not exist.
    DeleteBridge,
    /// An interface of the host, of an earlier version, should not exist.
    DeleteHostInterface(String, u32),
    /// The namespace should not exist.
    DeleteNamespace,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateNamespace => write!(f, "created namespace"),
            Self::CreateBridge => write!(f, "created bridge"),
            Self::SetBridgeUp => write!(f, "set bridge up"),
            Self::AddAddress(address) => write!(f, "added address {address}"),
            Self::RemoveAddress(address, _) => write!(f, "removed address {address}"),
            Self::DeleteBridge => write!(f, "deleted bridge"),
            Self::DeleteHostInterface(name, _) => write!(f, "deleted interface {name} of the host"),
            Self::DeleteNamespace => write!(f, "deleted namespace"),
        }
    }
}

impl Change {
    /// What is to be done, for an error.
    fn operation(&self, names: &Names) -> String {
        let namespace = names.namespace.display();
        match self {
            Self::CreateNamespace => format!("create the namespace {namespace}"),
            Self::CreateBridge => format!("create a bridge in the namespace {namespace}"),
            Self::SetBridgeUp => format!("set the bridge in the namespace {namespace} up"),
            Self::AddAddress(address) => {
                format!("add the address {address} to the bridge in the namespace {namespace}")
            }
            Self::RemoveAddress(address, _) => {
                format!("remove the address {address} from the bridge in the namespace {namespace}")
            }
            Self::DeleteBridge => format!("delete the bridge in the namespace {namespace}"),
            Self::DeleteHostInterface(name, _) => format!("delete the interface {name}"),
            Self::DeleteNamespace => format!("delete the namespace {namespace}"),
        }
    }
}

/// What this machine has of a Network.
struct Observed {
    namespace: NamespaceState,
    bridge: Option<Bridge>,
    /// The interfaces of an earlier version.
    host_interfaces: Vec<Link>,
}

struct Bridge {
    is_up: bool,
    addresses: Vec<(IpNet, AddressMessage)>,
}

impl Linux {
    async fn observe(&self, mark: &Mark, names: &Names) -> Result<Observed, BackendError> {
        let namespace = namespace::state(&names.namespace, mark).await?;
        let bridge = match namespace {
            NamespaceState::Foreign => {
                let what = format!("there is a namespace {}", names.namespace.display());
                return Err(BackendError::Foreign(what));
            }
            NamespaceState::Missing | NamespaceState::EmptyFile => None,
            NamespaceState::Ours => {
                let path = names.namespace.clone();
                let read = async move |netlink| bridge(&netlink, &path).await;
                namespace::inside(&names.namespace, read).await?
            }
        };
        let host_interfaces =
            connected(async |netlink| host_interfaces(&netlink, mark, names).await).await?;
        Ok(Observed { namespace, bridge, host_interfaces })
    }
}

/// The bridge of the namespace at `path`, in which this is called.
async fn bridge(netlink: &Netlink, path: &Path) -> Result<Option<Bridge>, BackendError> {
    let Some(link) = link(netlink, BRIDGE).await? else { return Ok(None) };
    if link.kind != Some(InfoKind::Bridge) || link.group != GROUP {
        let what = format!("there is an interface {BRIDGE} in the namespace {}", path.display());
        return Err(BackendError::Foreign(what));
    }
    let addresses = addresses(netlink, link.index).await?;
    Ok(Some(Bridge { is_up: link.is_up, addresses }))
}

/// The interfaces that an earlier version made in the namespace of the host. Others with their names do
/// not matter.
async fn host_interfaces(
    netlink: &Netlink,
    mark: &Mark,
    names: &Names,
) -> Result<Vec<Link>, BackendError> {
    let mut found = Vec::new();
    for (name, kind) in &names.host_interfaces {
        let is_ours = |link: &Link| {
            link.kind.as_ref() == Some(kind)
                && link.group == GROUP
                && link.alias.as_deref().is_none_or(|alias| alias == mark.as_str())
        };
        found.extend(link(netlink, name).await?.filter(is_ours));
    }
    Ok(found)
}

impl Observed {
    fn changes_to(self, desired: &Desired) -> Vec<Change> {
        let mut changes = deletions_of(self.host_interfaces);
        if self.namespace != NamespaceState::Ours {
            changes.push(Change::CreateNamespace);
        }
        match &self.bridge {
            None => changes.push(Change::CreateBridge),
            Some(bridge) if !bridge.is_up => changes.push(Change::SetBridgeUp),
            Some(_) => {}
        }
        let wanted = desired.gateway_on_link();
        let addresses = self.bridge.map(|bridge| bridge.addresses).unwrap_or_default();
        let has_address = addresses.iter().any(|(address, _)| *address == wanted);
        let others = addresses.into_iter().filter(|(address, _)| *address != wanted);
        changes.extend(
            others.map(|(address, message)| Change::RemoveAddress(address, Box::new(message))),
        );
        if !has_address {
            changes.push(Change::AddAddress(wanted));
        }
        changes
    }

    fn deletions(self) -> Vec<Change> {
        let mut changes = deletions_of(self.host_interfaces);
        // A process in the namespace may outlast its name.
        changes.extend(self.bridge.map(|_| Change::DeleteBridge));
        if self.namespace != NamespaceState::Missing {
            changes.push(Change::DeleteNamespace);
        }
        changes
    }
}

fn deletions_of(host_interfaces: Vec<Link>) -> Vec<Change> {
    let interfaces = host_interfaces.into_iter();
    interfaces.map(|link| Change::DeleteHostInterface(link.name, link.index)).collect()
}

impl Backend for Linux {
    type Change = Change;

    async fn plan(
        &self,
        mark: &Mark,
        desired: Option<&Desired>,
        _known: &Ids,
    ) -> Result<Plan<Change>, BackendError> {
        let names = Names::new(mark, &self.namespaces);
        let observed = self.observe(mark, &names).await?;
        let Some(desired) = desired else {
            return Ok(Plan { changes: observed.deletions(), ids: [].into() });
        };
        let namespace = names.namespace.display().to_string();
        let ids = [("bridge", BRIDGE.to_owned()), ("namespace", namespace)];
        let ids = ids.into_iter().map(|(part, id)| (part.to_owned(), id)).collect();
        Ok(Plan { changes: observed.changes_to(desired), ids })
    }

    async fn make(&self, mark: &Mark, change: &Change) -> Result<(), BackendError> {
        let names = Names::new(mark, &self.namespaces);
        let operation = change.operation(&names);
        match change {
            Change::CreateNamespace => namespace::create(&names.namespace, mark).await,
            Change::DeleteNamespace => namespace::delete(&names.namespace).await,
            Change::DeleteHostInterface(_, index) => {
                let deleted = async |netlink: Netlink| {
                    netlink.link().del(*index).execute().await.map_err(netlink_error(operation))
                };
                connected(deleted).await
            }
            _ => {
                let change = change.clone();
                let made = async move |netlink| change_bridge(&netlink, change, &operation).await;
                namespace::inside(&names.namespace, made).await
            }
        }
    }

    async fn keys(&self, cluster: &ClusterName) -> Result<Vec<Request>, BackendError> {
        let mut marks = namespace::marks(&self.namespaces, PREFIX).await?;
        // Those of an earlier version.
        let links = connected(async |netlink| links(&netlink).await).await?;
        let ours = links.into_iter().filter(|link| link.group == GROUP);
        marks.extend(ours.filter_map(|link| link.alias));
        let mut keys: Vec<_> = marks.iter().filter_map(|mark| cluster.key_of(mark)).collect();
        keys.sort();
        keys.dedup();
        Ok(keys)
    }
}

/// Makes a change of the bridge in the present namespace.
async fn change_bridge(
    netlink: &Netlink,
    change: Change,
    operation: &str,
) -> Result<(), BackendError> {
    let index = link(netlink, BRIDGE).await?.map(|bridge| bridge.index);
    let made = match (change, index) {
        (Change::CreateBridge, _) => {
            let bridge = LinkBridge::new(BRIDGE).link_group(GROUP).up().build();
            netlink.link().add(bridge).execute().await
        }
        (_, None) => {
            return Err(BackendError::Conflict(format!("cannot {operation}: it is missing")));
        }
        (Change::SetBridgeUp, Some(index)) => {
            netlink.link().set(LinkUnspec::new_with_index(index).up().build()).execute().await
        }
        (Change::AddAddress(address), Some(index)) => {
            let (ip, prefix): (IpAddr, u8) = (address.addr(), address.prefix_len());
            netlink.address().add(index, ip, prefix).execute().await
        }
        (Change::RemoveAddress(_, address), _) => netlink.address().del(*address).execute().await,
        (Change::DeleteBridge, Some(index)) => netlink.link().del(index).execute().await,
        // Not changes of the bridge.
        (
            Change::CreateNamespace | Change::DeleteNamespace | Change::DeleteHostInterface(..),
            _,
        ) => Ok(()),
    };
    made.map_err(netlink_error(operation))
}
