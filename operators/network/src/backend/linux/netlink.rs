//! Reads interfaces and addresses through netlink.

use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use ipnet::IpNet;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use rtnetlink::{Error, new_connection};
use tokio::time::timeout;

use crate::backend::BackendError;

pub(super) use rtnetlink::Handle as Netlink;

/// The longest time for the requests of one call. The kernel responds at once.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Calls `act` with a connection to the kernel, in the network namespace of this thread.
pub(super) async fn connected<T>(
    act: impl AsyncFnOnce(Netlink) -> Result<T, BackendError>,
) -> Result<T, BackendError> {
    let (connection, netlink, _) = new_connection().map_err(io_error("open a netlink socket"))?;
    let closed = || BackendError::Unavailable("netlink was closed".to_owned());
    let acting = async {
        tokio::select! {
            acted = act(netlink) => acted,
            () = connection => Err(closed()),
        }
    };
    timeout(TIMEOUT, pin!(acting)).await.map_err(|_| closed())?
}

/// An interface.
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) alias: Option<String>,
    pub(super) group: u32,
    pub(super) kind: Option<InfoKind>,
    pub(super) is_up: bool,
}

impl From<LinkMessage> for Link {
    fn from(message: LinkMessage) -> Self {
        let mut link = Self {
            index: message.header.index,
            name: String::new(),
            alias: None,
            group: 0,
            kind: None,
            is_up: message.header.flags.contains(LinkFlags::Up),
        };
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::IfAlias(alias) if !alias.is_empty() => link.alias = Some(alias),
                LinkAttribute::Group(group) => link.group = group,
                LinkAttribute::LinkInfo(infos) => {
                    for info in infos {
                        if let LinkInfo::Kind(kind) = info {
                            link.kind = Some(kind);
                        }
                    }
                }
                _ => {}
            }
        }
        link
    }
}

/// The interface of this name.
pub(super) async fn link(netlink: &Netlink, name: &str) -> Result<Option<Link>, BackendError> {
    let mut found = pin!(netlink.link().get().match_name(name).execute());
    match found.try_next().await {
        Ok(link) => Ok(link.map(Link::from)),
        Err(error) if code(&error) == Some(nix::libc::ENODEV) => Ok(None),
        Err(error) => Err(netlink_error(format_args!("read the interface {name}"))(error)),
    }
}

/// All interfaces.
pub(super) async fn links(netlink: &Netlink) -> Result<Vec<Link>, BackendError> {
    let links = netlink.link().get().execute().map_ok(Link::from);
    links.try_collect().await.map_err(netlink_error("list the interfaces"))
}

/// The addresses of an interface, without those that are valid on the link only.
pub(super) async fn addresses(
    netlink: &Netlink,
    index: u32,
) -> Result<Vec<(IpNet, AddressMessage)>, BackendError> {
    let messages = netlink.address().get().set_link_index_filter(index).execute();
    let operation = "list the addresses of an interface";
    let messages: Vec<_> = messages.try_collect().await.map_err(netlink_error(operation))?;
    let messages = messages.into_iter().filter(|message| {
        message.header.index == index && message.header.scope != AddressScope::Link
    });
    let found = messages.filter_map(|message| {
        let address = ip_of(&message)?;
        Some((IpNet::new(address, message.header.prefix_len).ok()?, message))
    });
    Ok(found.collect())
}

fn ip_of(message: &AddressMessage) -> Option<IpAddr> {
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    // IPv6 has no local address.
    local.or_else(|| {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })
}

/// The number of an error of the kernel.
fn code(error: &Error) -> Option<i32> {
    match error {
        Error::NetlinkError(message) => Some(-message.raw_code()),
        _ => None,
    }
}

/// The error of an operation on interfaces, such as `create the bridge sn-1`. An object that exists
/// already or no longer was changed since the plan.
pub(super) fn netlink_error(operation: impl Display) -> impl FnOnce(Error) -> BackendError {
    move |error| {
        let code = code(&error);
        let error =
            code.map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error);
        match code {
            Some(nix::libc::EEXIST | nix::libc::ENODEV | nix::libc::EADDRNOTAVAIL) => {
                BackendError::Conflict(format!("cannot {operation}: {error}"))
            }
            _ => io_error(operation)(error),
        }
    }
}

/// The error of an operation whose system call failed, such as `create the directory /run/netns`.
pub(super) fn io_error<E: Into<io::Error>>(
    operation: impl Display,
) -> impl FnOnce(E) -> BackendError {
    move |error| {
        let error = error.into();
        let mut why = format!("cannot {operation}: {error}");
        if error.raw_os_error() == Some(nix::libc::EPERM) {
            why += "; the capabilities CAP_NET_ADMIN and CAP_SYS_ADMIN are needed";
        }
        BackendError::Unavailable(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    #[test]
    fn an_error_names_the_operation_and_the_missing_capabilities() {
        let error = io_error("create the namespace /run/netns/a")(Errno::EPERM);
        assert_eq!(
            error.to_string(),
            "unavailable: cannot create the namespace /run/netns/a: Operation not permitted \
             (os error 1); the capabilities CAP_NET_ADMIN and CAP_SYS_ADMIN are needed"
        );
        let error = io_error("read the directory /run/netns")(Errno::EIO);
        assert_eq!(
            error.to_string(),
            "unavailable: cannot read the directory /run/netns: Input/output error (os error 5)"
        );
    }
}
