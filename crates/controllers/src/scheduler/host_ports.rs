//! [`HostPort`]: a port of the node that a container uses, and [`UsedPorts`], those of all pods of a
//! node.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::pod_wire::{ContainerWire, PortWire};

/// All addresses of the node. It is the smallest address in the order of [`IpAddr`].
const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// See the [module documentation](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HostPort {
    port: i32,
    protocol: Protocol,
    ip: IpAddr,
}

/// The API server accepts no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl HostPort {
    /// The ports of all containers.
    pub(crate) fn of<'a>(containers: impl Iterator<Item = &'a ContainerWire>) -> Box<[Self]> {
        let ports = containers.flat_map(|container| &container.ports);
        ports.filter(|port| port.host_port > 0).map(Self::from).collect()
    }
}

impl From<&PortWire> for HostPort {
    fn from(wire: &PortWire) -> Self {
        let protocol = match wire.protocol.as_str() {
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            _ => Protocol::Tcp,
        };
        Self { port: wire.host_port, protocol, ip: wire.host_ip.parse().unwrap_or(ANY) }
    }
}

/// See the [module documentation](self). Copies share the ports until one of them changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct UsedPorts {
    /// The number of pods that use each port. Those of one number and protocol are neighbors.
    users: Arc<BTreeMap<HostPort, usize>>,
}

impl UsedPorts {
    /// Adds the ports of a pod.
    pub(crate) fn add(&mut self, ports: &[HostPort]) {
        if ports.is_empty() {
            return;
        }
        let users = Arc::make_mut(&mut self.users);
        for port in ports {
            *users.entry(*port).or_default() += 1;
        }
    }

    /// Removes the ports of a pod.
    pub(crate) fn remove(&mut self, ports: &[HostPort]) {
        if ports.is_empty() {
            return;
        }
        let users = Arc::make_mut(&mut self.users);
        for port in ports {
            if let Some(count) = users.get_mut(port) {
                *count -= 1;
                if *count == 0 {
                    users.remove(port);
                }
            }
        }
    }

    /// Whether one of the ports cannot be used in addition: it is used on the same address, or either
    /// is used on all addresses.
    pub(crate) fn conflict_with(&self, ports: &[HostPort]) -> bool {
        !self.users.is_empty() && ports.iter().any(|port| self.conflicts_with(*port))
    }

    fn conflicts_with(&self, port: HostPort) -> bool {
        let on_all = HostPort { ip: ANY, ..port };
        if port.ip != ANY {
            return self.users.contains_key(&port) || self.users.contains_key(&on_all);
        }
        let first = self.users.range(on_all..).next();
        first.is_some_and(|(it, _)| (it.port, it.protocol) == (port.port, port.protocol))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(port: i32, protocol: &str, ip: &str) -> HostPort {
        let (protocol, host_ip) = (protocol.to_owned(), ip.to_owned());
        HostPort::from(&PortWire { host_port: port, host_ip, protocol })
    }

    fn used(ports: &[HostPort]) -> UsedPorts {
        let mut used = UsedPorts::default();
        used.add(ports);
        used
    }

    #[test]
    fn ports_conflict_on_the_same_address_or_on_all() {
        let used_here = used(&[port(80, "TCP", "127.0.0.1")]);
        let conflicts = |used: &UsedPorts, other: HostPort| used.conflict_with(&[other]);
        assert!(conflicts(&used_here, port(80, "TCP", "127.0.0.1")));
        assert!(conflicts(&used_here, port(80, "TCP", "0.0.0.0")));
        assert!(conflicts(&used_here, port(80, "", "")));
        assert!(!conflicts(&used_here, port(80, "TCP", "127.0.0.2")));
        assert!(!conflicts(&used_here, port(80, "UDP", "127.0.0.1")));
        assert!(!conflicts(&used_here, port(80, "UDP", "")));
        assert!(!conflicts(&used_here, port(81, "TCP", "127.0.0.1")));
        let everywhere = used(&[port(80, "TCP", "")]);
        assert!(conflicts(&everywhere, port(80, "TCP", "127.0.0.1")));
        assert!(conflicts(&everywhere, port(80, "TCP", "::1")));
        assert!(!conflicts(&everywhere, port(79, "TCP", "")));
        let six = used(&[port(80, "TCP", "fd00::1")]);
        assert!(conflicts(&six, port(80, "TCP", "")));
        assert!(!conflicts(&six, port(80, "TCP", "fd00::2")));
    }

    #[test]
    fn a_port_is_free_when_its_last_pod_is_removed() {
        let ports = [port(80, "TCP", "")];
        let mut used = used(&ports);
        let copy = used.clone();
        used.add(&ports);
        used.remove(&ports);
        assert!(used.conflict_with(&ports));
        used.remove(&ports);
        assert!(!used.conflict_with(&ports));
        assert!(copy.conflict_with(&ports));
    }

    #[test]
    fn a_hundred_thousand_ports_are_compared_in_no_time() {
        let of_pod = |pod: u32| {
            let ip = move |index: u32| IpAddr::V4(Ipv4Addr::from_bits(pod << 24 | index));
            let ports = (1..=100_000).map(|index| HostPort {
                port: 60_000,
                protocol: Protocol::Tcp,
                ip: ip(index),
            });
            ports.collect::<Vec<_>>()
        };
        // Each with each would be 10 billion comparisons.
        assert!(!used(&of_pod(10)).conflict_with(&of_pod(11)));
    }
}
