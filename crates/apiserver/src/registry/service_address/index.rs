//! [`AddressIndex`]: the addresses and node ports of stored services. It follows the change log of
//! services, so that a request does not parse all services.
//!
//! A service is parsed once for each of its revisions, by a request that needs the index, while the
//! index is not locked:
//!
//! ```text
//! lock    catch_up() = [a, b]     the log has changes of a and b: they are not counted
//! unlock  a.parse() b.parse()     shared with other requests that parse them
//! lock    catch_up() = []         a and b are counted again: the index is current
//! ```
//!
//! Invariants:
//! - a service that is known to the index is either in `holdings` or in `unparsed`;
//! - `addresses` and `ports` contain, for each address and port, the number of services in
//!   `holdings` that have it.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};

use crate::cache::watch_cache::{Change, Entry, LogPosition, ResourceCache, Snapshot};
use crate::storage::unreadable_error;
use keel::blocking;
use kinds::core::service::allocation as service;
use machinery::{Object, Status};
use store::Revision;

/// The total size of services above which the thread hands its other tasks to another thread before
/// it parses them.
const LARGE_PARSE_BYTES: usize = 64 << 10;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct AddressIndex {
    /// The position after the last change in the index; None before the first one.
    position: Option<LogPosition>,
    /// The error of a service that cannot be decrypted, so that its addresses are not known.
    unreadable: Option<Status>,
    /// The addresses and ports of each service, by its key.
    holdings: HashMap<Arc<str>, (Revision, Arc<Holding>)>,
    unparsed: HashMap<Arc<str>, UnparsedService>,
    addresses: HashMap<Ipv4Addr, usize>,
    ports: HashMap<u16, usize>,
}

/// The distinct addresses and ports of one service.
#[derive(Debug, Default)]
pub(super) struct Holding {
    addresses: Vec<Ipv4Addr>,
    ports: Vec<u16>,
}

/// A changed service that is not counted yet. Clones share the parsed result.
#[derive(Debug, Clone)]
pub(super) struct UnparsedService {
    entry: Arc<Entry>,
    holding: Arc<OnceLock<Arc<Holding>>>,
}

/// Parses services. Must not be called while the index is locked.
pub(super) fn parse_all(services: &[UnparsedService]) {
    let parse = || services.iter().for_each(UnparsedService::parse);
    let size: usize = services.iter().map(|it| it.entry.len()).sum();
    if size > LARGE_PARSE_BYTES { blocking(parse) } else { parse() }
}

impl UnparsedService {
    fn of(entry: &Arc<Entry>) -> Self {
        Self { entry: Arc::clone(entry), holding: Arc::default() }
    }

    fn parse(&self) {
        self.holding.get_or_init(|| Arc::new(Holding::of(&self.entry.object_as_stored())));
    }
}

impl Holding {
    fn of(service: &Object) -> Self {
        let mut addresses = service::held_cluster_ips(service);
        addresses.sort_unstable();
        addresses.dedup();
        Self { addresses, ports: service::node_ports(service) }
    }
}

impl AddressIndex {
    /// Applies the change log to the index. Returns the services that must be parsed first; if none
    /// are returned, the index is current.
    pub(super) fn catch_up(&mut self, cache: &ResourceCache) -> Vec<UnparsedService> {
        let followed = cache.follow(self.position);
        match followed.changes {
            Some(changes) => changes.iter().for_each(|change| self.apply(change)),
            None => self.compare(&followed.snapshot),
        }
        self.position = Some(followed.position);
        self.unreadable = unreadable_error::check_list(&followed.snapshot, "").err();
        self.count_parsed();
        self.unparsed.values().cloned().collect()
    }

    /// Counts the services that were parsed since `catch_up` returned them.
    pub(super) fn count_parsed(&mut self) {
        let parsed: Vec<UnparsedService> = self
            .unparsed
            .extract_if(|_, it| it.holding.get().is_some())
            .map(|(_, it)| it)
            .collect();
        for UnparsedService { entry, holding } in parsed {
            let Some(holding) = holding.get() else { continue };
            for address in &holding.addresses {
                *self.addresses.entry(*address).or_default() += 1;
            }
            for port in &holding.ports {
                *self.ports.entry(*port).or_default() += 1;
            }
            let held = (entry.revision, Arc::clone(holding));
            self.holdings.insert(Arc::clone(&entry.key), held);
        }
    }

    /// Fails if the addresses of a service are not known: another one must not get them.
    pub(super) fn check_complete(&self) -> Result<(), Status> {
        self.unreadable.clone().map_or(Ok(()), Err)
    }

    /// Whether a service other than the one with the key `own_key` has an address.
    pub(super) fn has_address(&self, address: Ipv4Addr, own_key: Option<&str>) -> bool {
        let is_own = self.holding(own_key).is_some_and(|it| it.addresses.contains(&address));
        self.addresses.get(&address).is_some_and(|holders| *holders > usize::from(is_own))
    }

    /// Whether a service other than the one with the key `own_key` has a node port.
    pub(super) fn has_port(&self, port: u16, own_key: Option<&str>) -> bool {
        // The ports of a service are sorted.
        let is_own = self.holding(own_key).is_some_and(|it| it.ports.binary_search(&port).is_ok());
        self.ports.get(&port).is_some_and(|holders| *holders > usize::from(is_own))
    }

    fn holding(&self, key: Option<&str>) -> Option<&Holding> {
        self.holdings.get(key?).map(|(_, holding)| &**holding)
    }

    fn apply(&mut self, change: &Change) {
        if let Some(entry) = change.new.as_ref().or(change.old.as_ref()) {
            self.remove(&entry.key);
        }
        if let Some(entry) = &change.new {
            self.unparsed.insert(Arc::clone(&entry.key), UnparsedService::of(entry));
        }
    }

    /// Finds the changes up to `snapshot` without the change log.
    fn compare(&mut self, snapshot: &Snapshot) {
        let is_current = |key: &str, revision: Revision| {
            snapshot.entries.get(key).is_some_and(|entry| entry.revision == revision)
        };
        self.unparsed.retain(|key, it| is_current(key, it.entry.revision));
        let outdated =
            self.holdings.iter().filter(|(key, (revision, _))| !is_current(key, *revision));
        let outdated: Vec<Arc<str>> = outdated.map(|(key, _)| Arc::clone(key)).collect();
        for key in outdated {
            self.remove(&key);
        }
        for (key, entry) in &snapshot.entries {
            if !self.holdings.contains_key(key) && !self.unparsed.contains_key(key) {
                self.unparsed.insert(Arc::clone(key), UnparsedService::of(entry));
            }
        }
    }

    fn remove(&mut self, key: &str) {
        self.unparsed.remove(key);
        let Some((_, holding)) = self.holdings.remove(key) else { return };
        holding.addresses.iter().for_each(|it| remove_one(&mut self.addresses, it));
        holding.ports.iter().for_each(|it| remove_one(&mut self.ports, it));
    }
}

fn remove_one<T: Eq + Hash>(holders: &mut HashMap<T, usize>, held: &T) {
    if let Some(count) = holders.get_mut(held) {
        *count -= 1;
        if *count == 0 {
            holders.remove(held);
        }
    }
}

#[cfg(test)]
mod tests;
