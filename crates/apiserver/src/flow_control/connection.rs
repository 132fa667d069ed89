//! [`Connections`]: limits the number of connections.
//!
//! A connection uses memory before its user is authenticated, for instance for a handshake or for a
//! request head that never ends. At most [`MAX_UNAUTHENTICATED`] connections are in that state. A
//! further connection evicts the oldest of them, so that a client that connects during a flood has
//! as much time for its first request as the flood needs to reach the limit again. From its first
//! authenticated request on, a connection counts for its user instead, who may have
//! [`MAX_PER_USER`] of them.
//!
//! ```text
//! accepted ──▶ unauthenticated ── request authenticated ──▶ connection of the user
//!                     └── the oldest, if the limit is exceeded ──▶ closed
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Notify;

use crate::auth::authentication::User;
use crate::flow_control::{AnswerAccount, ConnectionCharge, FlowControl, charge_connection};
use keel::ThreadShare;
use machinery::Status;

/// The maximum number of connections without an authenticated user. The head of a request takes up to
/// 128 KiB, and the state of TLS and HTTP about half as much.
const MAX_UNAUTHENTICATED: usize = 600;

/// The maximum number of connections of one user. Masters are exempt.
const MAX_PER_USER: usize = 1000;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct Connections {
    unauthenticated: Mutex<Unauthenticated>,
}

/// The connections without a user, by number; the oldest is the first.
#[derive(Debug, Default)]
struct Unauthenticated {
    connections: BTreeMap<u64, Arc<Notify>>,
    next: u64,
}

impl Connections {
    /// Adds an accepted connection.
    pub(crate) fn open(self: &Arc<Self>) -> Arc<Connection> {
        let closing = Arc::new(Notify::new());
        let mut unauthenticated = self.lock();
        let number = unauthenticated.next;
        unauthenticated.next += 1;
        unauthenticated.connections.insert(number, Arc::clone(&closing));
        if unauthenticated.connections.len() > MAX_UNAUTHENTICATED
            && let Some((_, oldest)) = unauthenticated.connections.pop_first()
        {
            oldest.notify_one();
        }
        drop(unauthenticated);
        Arc::new(Connection {
            connections: Arc::clone(self),
            number,
            closing,
            owner: OnceLock::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Unauthenticated> {
        self.unauthenticated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state shared by the requests of one connection.
#[derive(Debug)]
pub(crate) struct Connection {
    connections: Arc<Connections>,
    number: u64,
    closing: Arc<Notify>,
    /// The charge to the first authenticated user; None for masters. Later requests with another token
    /// count for the same user.
    owner: OnceLock<Option<ConnectionCharge>>,
}

impl Connection {
    /// Waits until the connection is evicted by a newer one.
    pub(crate) async fn evicted(&self) {
        self.closing.notified().await;
    }

    /// Records that a request of `user` was authenticated; returns the account for its answer. Fails
    /// if the user has too many connections.
    pub(crate) fn authenticated(
        &self,
        flow: &FlowControl,
        user: &User,
    ) -> Result<Option<&Arc<AnswerAccount>>, Status> {
        if let Some(owner) = self.owner.get() {
            return Ok(owner.as_ref().map(ConnectionCharge::account));
        }
        let owner = match flow.answer_account(user) {
            None => None,
            Some(account) => Some(charge_connection(&account, MAX_PER_USER)?),
        };
        // Two requests may reach this at once. The charge of the later one is dropped.
        let owner = self.owner.get_or_init(|| owner);
        self.connections.lock().connections.remove(&self.number);
        Ok(owner.as_ref().map(ConnectionCharge::account))
    }

    /// The account for an answer; that of anonymous users before the first authenticated request.
    pub(crate) fn account(&self, flow: &FlowControl) -> Option<Arc<AnswerAccount>> {
        match self.owner.get() {
            Some(owner) => owner.as_ref().map(|it| Arc::clone(it.account())),
            None => flow.answer_account(&User::anonymous()),
        }
    }

    /// The share of the threads in which the connection and its requests are polled.
    pub(crate) fn threads(&self, flow: &FlowControl) -> Arc<ThreadShare> {
        Arc::clone(match self.owner.get() {
            Some(Some(owner)) => &owner.account().threads,
            Some(None) => &flow.master_threads,
            None => &flow.unauthenticated_threads,
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.lock().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::auth::authorization::masters;
    use crate::flow_control::Fairness;
    use keel::Tasks;

    fn flow() -> FlowControl {
        FlowControl::new(1, 1, Fairness::Enabled, &Tasks::new(), &mut Registry::default())
    }

    fn evicted(connection: &Connection) -> bool {
        connection.evicted().now_or_never().is_some()
    }

    #[test]
    fn a_new_connection_evicts_the_oldest_one_without_a_user() {
        let connections = Arc::<Connections>::default();
        let flow = flow();
        let mut all: Vec<_> = (0..MAX_UNAUTHENTICATED).map(|_| connections.open()).collect();
        all[0].authenticated(&flow, &User::authenticated("alice", "", Vec::new())).unwrap();
        all.push(connections.open());
        assert!(all.iter().all(|it| !evicted(it)));
        all.push(connections.open());
        let closed: Vec<usize> = (0..all.len()).filter(|it| evicted(&all[*it])).collect();
        assert_eq!(closed, [1]);
        drop(all);
        assert!(connections.lock().connections.is_empty());
    }

    #[test]
    fn the_number_of_connections_is_limited_for_users_but_not_for_masters() {
        let connections = Arc::<Connections>::default();
        let flow = flow();
        let open = |user: &User| {
            let connection = connections.open();
            connection.authenticated(&flow, user).map(drop).map_err(|it| it.code)?;
            Ok::<_, u16>(connection)
        };
        let alice = User::authenticated("alice", "", Vec::new());
        let mut all: Vec<_> = (0..MAX_PER_USER).map(|_| open(&alice).unwrap()).collect();
        assert_eq!(open(&alice).unwrap_err(), 429);
        all.pop();
        assert!(open(&alice).is_ok());
        let root = masters::member("root");
        let masters: Vec<_> = (0..=MAX_PER_USER).map(|_| open(&root)).collect();
        assert!(masters.iter().all(Result::is_ok));
    }
}
