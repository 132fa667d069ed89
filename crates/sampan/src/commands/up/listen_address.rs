//! [`ListenAddress`]: the value of `--listen`, with the names and the URL of the server.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::str::FromStr;

use rustix::system::uname;

/// An address with a port; a host name is resolved when it is parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListenAddress {
    /// The address to bind.
    pub address: SocketAddr,
    /// The host name, if the value has one in the place of an address.
    host_name: Option<String>,
}

/// Why a value is not an address to listen on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Correct the value.
    #[error(
        "expected HOST:PORT, as in 127.0.0.1:6443, localhost:8443, [::1]:6443, or 0.0.0.0:6443 for \
         all addresses of this machine; port 0 picks a free one"
    )]
    Syntax,
    /// Correct the host name, or use an address.
    #[error("{host:?} is not the name of a host; use an address, as in 127.0.0.1:{port}")]
    UnknownHost {
        /// The name, which has no address.
        host: String,
        /// The port of the value.
        port: u16,
    },
}

impl FromStr for ListenAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if let Ok(address) = text.parse() {
            return Ok(Self { address, host_name: None });
        }
        let (host, port) = text.rsplit_once(':').ok_or(Error::Syntax)?;
        let port: u16 = port.parse().map_err(|_| Error::Syntax)?;
        // A colon in the host means a URL, or an IPv6 address without brackets.
        if host.is_empty() || host.contains([':', '/']) {
            return Err(Error::Syntax);
        }
        let unknown = || Error::UnknownHost { host: host.to_owned(), port };
        let found: Vec<SocketAddr> =
            (host, port).to_socket_addrs().map_err(|_| unknown())?.collect();
        // IPv4 is preferred, as by Go's `net.Listen`.
        let address = found.iter().find(|it| it.is_ipv4()).or(found.first()).ok_or_else(unknown)?;
        Ok(Self { address: *address, host_name: Some(host.to_owned()) })
    }
}

impl ListenAddress {
    /// The names and addresses of the serving certificate, besides the address of the socket: the
    /// host name of the value, and all names and addresses of the machine if the server listens on
    /// all of them.
    pub(crate) fn serving_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.host_name.iter().cloned().collect();
        if self.address.ip().is_unspecified() {
            names.extend(uname().nodename().to_str().ok().map(str::to_owned));
            names.extend(machine_addresses().iter().map(ToString::to_string));
        }
        // Other characters would make the certificate malformed for some clients.
        let is_plain = |it: &u8| it.is_ascii_alphanumeric() || b"-.:".contains(it);
        names.retain(|it| !it.is_empty() && it.as_bytes().iter().all(is_plain));
        names
    }
}

/// The URL of a server that listens on `address`, for clients on this machine.
pub(crate) fn server_url(address: SocketAddr) -> String {
    // Clients cannot connect to the unspecified address.
    let host = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        other => other,
    };
    format!("https://{}", SocketAddr::new(host, address.port()))
}

/// The addresses of this machine's interfaces: all of them on Linux, elsewhere those with a route
/// to other machines.
fn machine_addresses() -> Vec<IpAddr> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let mut addresses = parse_fib_trie(&read("/proc/net/fib_trie"));
    addresses.extend(parse_if_inet6(&read("/proc/net/if_inet6")));
    addresses.extend(["192.0.2.1", "2001:db8::1"].iter().filter_map(|it| source_address(it)));
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// The source address of packets from this machine to another. No packet is sent.
fn source_address(other: &str) -> Option<IpAddr> {
    let other: IpAddr = other.parse().ok()?;
    let any: IpAddr =
        if other.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((other, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The local addresses in Linux' routing table, which are followed by a line `/32 host LOCAL`.
fn parse_fib_trie(text: &str) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    let mut last: Option<IpAddr> = None;
    for line in text.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL" {
            addresses.extend(last.take());
        }
    }
    addresses
}

/// The addresses of Linux' IPv6 interfaces, which are 32 hexadecimal digits at the start of a line.
fn parse_if_inet6(text: &str) -> Vec<IpAddr> {
    let first_columns = text.lines().filter_map(|line| line.split_whitespace().next());
    first_columns
        .filter(|it| it.len() == 32)
        .filter_map(|it| u128::from_str_radix(it, 16).ok())
        .map(|it| Ipv6Addr::from_bits(it).into())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_and_addresses_with_a_port_are_accepted() {
        for (text, address) in [
            ("127.0.0.1:6443", "127.0.0.1:6443"),
            ("localhost:8443", "127.0.0.1:8443"),
            ("[::1]:0", "[::1]:0"),
        ] {
            let parsed: ListenAddress = text.parse().unwrap();
            assert_eq!(parsed.address, address.parse().unwrap(), "{text}");
        }
        let named: ListenAddress = "localhost:8443".parse().unwrap();
        assert_eq!(named.serving_names(), ["localhost"]);
    }

    #[test]
    fn other_values_are_refused_with_an_example() {
        for text in ["8443", ":8443", "localhost", "127.0.0.1", "::1:6443", "https://127.0.0.1:1"] {
            let error = text.parse::<ListenAddress>().unwrap_err().to_string();
            assert!(error.contains("as in 127.0.0.1:6443"), "{text}: {error}");
        }
        assert!(matches!("localhost:66000".parse::<ListenAddress>(), Err(Error::Syntax)));
        // A name with a null character is never sent to a resolver.
        let unknown = "no\0host:1".parse::<ListenAddress>().unwrap_err().to_string();
        assert_eq!(
            unknown,
            r#""no\0host" is not the name of a host; use an address, as in 127.0.0.1:1"#
        );
    }

    #[test]
    fn the_url_of_all_addresses_is_that_of_the_loopback_address() {
        for (address, url) in [
            ("0.0.0.0:6443", "https://127.0.0.1:6443"),
            ("[::]:6443", "https://[::1]:6443"),
            ("192.0.2.7:443", "https://192.0.2.7:443"),
        ] {
            assert_eq!(server_url(address.parse().unwrap()), url);
        }
    }

    #[test]
    fn local_addresses_are_read_from_the_routing_table() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 172.17.0.2\n        /32 host LOCAL\n     |-- 172.17.255.255\n        /32 link BROADCAST\n";
        assert_eq!(parse_fib_trie(trie), ["172.17.0.2".parse::<IpAddr>().unwrap()]);
        let interfaces = "00000000000000000000000000000001 01 80 10 80       lo\n";
        assert_eq!(parse_if_inet6(interfaces), ["::1".parse::<IpAddr>().unwrap()]);
    }
}
