//! [`Connections`]: how many connections clients may have, and what their requests have in common.
//!
//! A connection costs memory before anybody knows whose it is: a handshake or the head of a request
//! that never ends. At most [`MAX_UNAUTHENTICATED`] connections are in that state. One more takes the
//! place of the oldest of them, so that whoever connects during a flood has as long for the first
//! request as the flood takes to fill all places. With the first request that is authenticated a
//! connection counts for its user instead, who may have [`MAX_PER_USER`] of them.
//!
//! ```text
//! accepted ──▶ unauthenticated ── request authenticated ──▶ connection of the user
//!                     └── the oldest, when there are too many ──▶ closed
//! ```

use crate::auth::authentication::User;
use crate::flow_control::{AnswerAccount, ConnectionCharge, FlowControl, charge_connection};
use machinery::Status;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::Notify;

/// See the [module documentation](self). The head of a request takes up to 128 KiB, and the state of
/// TLS and HTTP about half as much.
const MAX_UNAUTHENTICATED: usize = 600;

/// See the [module documentation](self). Masters are exempt.
const MAX_PER_USER: usize = 1000;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct Connections {
    unauthenticated: Mutex<Unauthenticated>,
}

/// The connections by their numbers, so the oldest comes first.
#[derive(Debug, Default)]
struct Unauthenticated {
    connections: BTreeMap<u64, Arc<Notify>>,
    next: u64,
}

impl Connections {
    /// A connection was accepted.
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

/// What the requests of one connection have in common.
#[derive(Debug)]
pub(crate) struct Connection {
    connections: Arc<Connections>,
    number: u64,
    closing: Arc<Notify>,
    /// The first user who was authenticated; None for masters. Who presents another token later
    /// uses the same connection, and its memory.
    owner: OnceLock<Option<ConnectionCharge>>,
}

impl Connection {
    /// Waits until the connection has to give way to another one.
    pub(crate) async fn evicted(&self) {
        self.closing.notified().await;
    }

    /// Notes that a request of `user` was authenticated; returns the account of its answer. Fails
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
        // Two requests may get here at once. The charge of the one that is late is given back.
        let owner = self.owner.get_or_init(|| owner);
        self.connections.lock().connections.remove(&self.number);
        Ok(owner.as_ref().map(ConnectionCharge::account))
    }

    /// The account of an answer; that of anonymous users as long as nobody was authenticated.
    pub(crate) fn account(&self, flow: &FlowControl) -> Option<Arc<AnswerAccount>> {
        match self.owner.get() {
            Some(owner) => owner.as_ref().map(|it| Arc::clone(it.account())),
            None => flow.answer_account(&User::anonymous()),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.lock().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::authorization::masters;
    use futures_util::FutureExt;

    fn evicted(connection: &Connection) -> bool {
        connection.evicted().now_or_never().is_some()
    }

    #[test]
    fn the_oldest_connection_without_a_user_gives_way_to_a_new_one() {
        let connections = Arc::<Connections>::default();
        let flow = FlowControl::new(1, 1);
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
    fn a_user_has_a_bounded_number_of_connections_and_masters_have_not() {
        let connections = Arc::<Connections>::default();
        let flow = FlowControl::new(1, 1);
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
