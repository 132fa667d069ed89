//! The Endpoints and the `EndpointSlice` of the service `kubernetes`: the address of this server. Nothing is
//! written if the server does not listen.
//!
//! Upstream: pkg/controlplane/reconcilers, with one server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use super::{Error, SERVICE};
use crate::in_process::loopback::LoopbackClient;
use crate::plane::Plane;
use machinery::{Value, json};

const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// Pods cannot use this address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} may not be unspecified, in the loopback range, link-local or multicast")]
pub struct InvalidAdvertiseAddress(IpAddr);

/// Refuses a configured address that endpoints may not have. Upstream: `ValidateEndpointIP`.
pub(in crate::server) fn check_address(
    configured: Option<IpAddr>,
) -> Result<(), InvalidAdvertiseAddress> {
    configured.filter(|it| !is_valid(*it)).map_or(Ok(()), |it| Err(InvalidAdvertiseAddress(it)))
}

fn is_valid(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let is_local = address.is_unspecified() || address.is_loopback() || is_link_local;
    !is_local && !address.is_multicast()
}

/// The address of the endpoints of a server that listens at `listening`; None if the machine has no
/// address in a network. Upstream: `ResolveBindAddress`.
pub(in crate::server) fn advertised(
    configured: Option<IpAddr>,
    listening: SocketAddr,
) -> Option<SocketAddr> {
    let is_local = listening.ip().is_unspecified() || listening.ip().is_loopback();
    let address = configured.or_else(|| match listening.ip() {
        address if is_local => host_address(address),
        address => Some(address),
    });
    let address = address.filter(|it| is_valid(*it))?;
    Some(SocketAddr::new(address, listening.port()))
}

/// The address from which this machine sends to other networks, in the family of `family`.
fn host_address(family: IpAddr) -> Option<IpAddr> {
    // Addresses for documentation. A datagram socket that is connected sends nothing.
    let (any, remote): (IpAddr, IpAddr) = match family {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
        IpAddr::V6(_) => {
            let remote = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
            (Ipv6Addr::UNSPECIFIED.into(), remote.into())
        }
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((remote, 443)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The revisions of the two objects when they were last found or made correct.
pub(super) type SyncedRevisions = [Option<u64>; 2];

/// Restores both objects, unless they have the revisions of the last synchronization.
pub(super) async fn sync(
    plane: &Plane,
    client: &LoopbackClient,
    synced: &mut SyncedRevisions,
) -> Result<(), Error> {
    let Some(address) = plane.advertised else { return Ok(()) };
    let found = revisions(plane);
    if found == *synced && found.iter().all(Option::is_some) {
        return Ok(());
    }
    restore(client, ENDPOINTS, endpoints(address)).await?;
    restore(client, SLICES, slice(address)).await?;
    *synced = revisions(plane);
    Ok(())
}

/// The revisions of the two objects in the cache.
fn revisions(plane: &Plane) -> SyncedRevisions {
    let catalog = plane.storage.catalog.load();
    [("", "endpoints"), ("discovery.k8s.io", "endpointslices")].map(|(group, plural)| {
        let served = catalog.resource(group, plural)?;
        let entry = served.cache.get(&served.key("default", SERVICE));
        entry.map(|entry| entry.revision)
    })
}

fn endpoints(address: SocketAddr) -> Value {
    json!({
        "metadata": {"name": SERVICE, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{
            "addresses": [{"ip": address.ip().to_string()}],
            "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
        }],
    })
}

fn slice(address: SocketAddr) -> Value {
    json!({
        "metadata": {"name": SERVICE, "labels": {"kubernetes.io/service-name": SERVICE}},
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [
            {"addresses": [address.ip().to_string()], "conditions": {"ready": true}}
        ],
        "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
    })
}

/// Creates an object, or restores the fields of `wanted` in it.
async fn restore(client: &LoopbackClient, collection: &str, wanted: Value) -> Result<(), Error> {
    let path = format!("{collection}/{SERVICE}");
    let found = client.get(&path).await;
    let object = found.object();
    let is_correct = |field: &str| match object.get(&[field]) {
        Some(value) if field == "metadata" => value["labels"] == wanted["metadata"]["labels"],
        value => value == wanted.get(field),
    };
    let fields = wanted.as_object().expect("an object was written");
    if found.code == 200 && fields.keys().all(|field| is_correct(field)) {
        return Ok(());
    }
    // The type of addresses cannot be changed.
    if found.code == 200 && !is_correct("addressType") {
        client.delete(&path).await;
    }
    let mut response = client.update(&path, &wanted).await;
    if response.code == 404 {
        response = client.create(collection, &wanted).await;
    }
    // After a conflict, another attempt follows.
    match response.code {
        200 | 201 | 409 => Ok(()),
        _ => Err(Error { path, message: response.message() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loopback_address_is_never_advertised() {
        let local: SocketAddr = "127.0.0.1:6443".parse().unwrap();
        assert!(advertised(None, local).is_none_or(|it| !it.ip().is_loopback()));
        assert!(check_address(Some(local.ip())).is_err());
        assert_eq!(check_address(None), Ok(()));
        let public: SocketAddr = "203.0.113.7:6443".parse().unwrap();
        assert_eq!(advertised(None, public), Some(public));
        let configured = "198.51.100.1".parse().unwrap();
        assert_eq!(advertised(Some(configured), local), Some(SocketAddr::new(configured, 6443)));
    }
}
