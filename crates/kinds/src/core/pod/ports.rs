//! Warnings about ports of containers that conflict with each other.
//!
//! Ports of the same number and protocol are indexed by host port and host IP, so that only
//! conflicting ports are compared. The number of warnings is limited: a pod of the maximum size
//! could otherwise cause hundreds of millions of them.

use std::collections::HashMap;

use machinery::field_path::quote;
use machinery::fields::{list, number, text};
use machinery::{Path, Value};

/// The maximum number of warnings about conflicts. A client receives only the first few kilobytes
/// of them.
const WARNINGS_MAX: usize = 1000;

/// A port of a container.
struct PortDefinition<'a> {
    path: String,
    host_ip: &'a str,
    host_port: i64,
}

impl PortDefinition<'_> {
    /// How this port conflicts with another one of the same number and protocol.
    fn conflict(&self, other: &PortDefinition<'_>) -> Option<&'static str> {
        if self.host_ip == other.host_ip && self.host_port == other.host_port {
            Some("duplicate")
        } else if self.host_port == 0 || other.host_port == 0 {
            Some("overlapping")
        } else if self.host_port == other.host_port
            && self.host_ip.is_empty() != other.host_ip.is_empty()
        {
            Some("dangerously ambiguous")
        } else {
            None
        }
    }
}

/// The ports of one number and protocol. Indexes are in ascending order.
#[derive(Default)]
struct Group<'a> {
    ports: Vec<PortDefinition<'a>>,
    by_host_port: HashMap<i64, Vec<usize>>,
    by_host: HashMap<(i64, &'a str), Vec<usize>>,
}

impl<'a> Group<'a> {
    /// The ports with which `port` conflicts, at least the first [`WARNINGS_MAX`] of them.
    fn conflicting(&self, port: &PortDefinition<'a>) -> Vec<&PortDefinition<'a>> {
        if port.host_port == 0 {
            return self.ports.iter().take(WARNINGS_MAX).collect();
        }
        let of_port = |host_port| self.by_host_port.get(&host_port);
        let of_host = |host_ip| self.by_host.get(&(port.host_port, host_ip));
        let found = if port.host_ip.is_empty() {
            [of_port(0), of_port(port.host_port), None]
        } else {
            [of_port(0), of_host(""), of_host(port.host_ip)]
        };
        let found = found.into_iter().flatten();
        let mut indexes: Vec<usize> =
            found.flat_map(|indexes| indexes.iter().take(WARNINGS_MAX).copied()).collect();
        indexes.sort_unstable();
        indexes.into_iter().map(|index| &self.ports[index]).collect()
    }

    fn add(&mut self, port: PortDefinition<'a>) {
        let index = self.ports.len();
        self.by_host_port.entry(port.host_port).or_default().push(index);
        self.by_host.entry((port.host_port, port.host_ip)).or_default().push(index);
        self.ports.push(port);
    }
}

/// Adds the warnings about the ports of a pod's spec.
pub(super) fn warn(out: &mut Vec<String>, path: &Path<'_>, spec: &Value) {
    let mut groups: HashMap<(i64, &str), Group<'_>> = HashMap::new();
    let mut names: HashMap<&str, String> = HashMap::new();
    let mut name_warnings = Vec::new();
    let mut left = WARNINGS_MAX;
    for part in super::CONTAINERS {
        let path = path.child(part);
        for (index, container) in list(spec, part).iter().enumerate() {
            let path = path.index(index);
            let path = path.child("ports");
            for (index, value) in list(container, "ports").iter().enumerate() {
                let port_path = path.index(index).to_string();
                let name = text(value, "name");
                match names.get(name) {
                    _ if name.is_empty() => {}
                    None => drop(names.insert(name, port_path.clone())),
                    Some(other) => name_warnings.push(duplicate_name(&port_path, name, other)),
                }
                if left == 0 {
                    continue;
                }
                let (host_ip, host_port) = (text(value, "hostIP"), number(value, "hostPort"));
                let port = PortDefinition { path: port_path, host_ip, host_port };
                let key = (number(value, "containerPort"), text(value, "protocol"));
                let group = groups.entry(key).or_default();
                for other in group.conflicting(&port).into_iter().take(left) {
                    let Some(what) = port.conflict(other) else { continue };
                    let (path, other) = (&port.path, &other.path);
                    out.push(format!("{path}: {what} port definition with {other}"));
                    left -= 1;
                }
                group.add(port);
            }
        }
    }
    out.extend(name_warnings);
}

fn duplicate_name(path: &str, name: &str, other: &str) -> String {
    let name = quote(name);
    format!(
        "{path}: duplicate port name {name} with {other}, services and probes that select ports by name will use {other}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn warnings(ports: &Value) -> Vec<String> {
        let mut out = Vec::new();
        warn(&mut out, &Path::root("s"), &json!({"containers": [{"ports": ports}]}));
        out
    }

    #[test]
    fn ports_of_one_number_conflict_by_host_ip_and_host_port() {
        let port =
            |ip: &str, port: i64| json!({"containerPort": 80, "hostIP": ip, "hostPort": port});
        let ports = json!([
            port("a", 1),
            port("b", 1),
            port("", 1),
            port("a", 1),
            port("a", 2),
            port("", 0)
        ]);
        let found: Vec<String> = warnings(&ports)
            .iter()
            .map(|it| {
                it.replace("s.containers[0].ports", "").replace(" port definition with ", " ")
            })
            .collect();
        assert_eq!(
            found,
            [
                "[2]: dangerously ambiguous [0]",
                "[2]: dangerously ambiguous [1]",
                "[3]: duplicate [0]",
                "[3]: dangerously ambiguous [2]",
                "[5]: overlapping [0]",
                "[5]: overlapping [1]",
                "[5]: overlapping [2]",
                "[5]: overlapping [3]",
                "[5]: overlapping [4]",
            ]
        );
    }

    #[test]
    fn the_number_of_reported_conflicts_is_limited() {
        let ports: Value = (0..20_000).map(|_| json!({"containerPort": 80})).collect();
        assert_eq!(warnings(&ports).len(), WARNINGS_MAX);
    }
}
