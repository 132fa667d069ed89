//! [`AnswerAccounts`]: the memory of answers that clients have not read yet, counted for each user.
//!
//! A client that does not read keeps the bytes of its answers in memory: in the body, and then in
//! the buffers of the HTTP library, which outlive the body. Bytes are therefore counted as long as
//! they exist, by an owner that travels with them ([`AnswerAccount::hold`]). Every answer under way
//! also counts [`STREAM_OVERHEAD`] bytes for the state that goes with it.
//!
//! The limit is shared as in [`shares`](super::shares): a user has room as long as they have no more
//! than what is left, so one user fills half of it. The count itself takes no lock and never fails,
//! since a write that was committed has to be answered. What is refused is the next request:
//!
//! ```text
//! room        requests are served
//! no room     requests are refused with 429 before any work, large events end their watch
//! overdrawn   requests get no answer at all: their streams are reset
//! ```

use bytes::Bytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What an answer under way costs beside its bytes: its stream, its request, its task.
pub(crate) const STREAM_OVERHEAD: usize = 8 << 10;

/// Smaller pieces are not counted by themselves; [`STREAM_OVERHEAD`] covers them.
const MIN_COUNTED: usize = 2 << 10;

/// A user whose answers exceed the limit by this share of it is overdrawn.
const OVERDRAFT: usize = 6;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct AnswerAccounts {
    limit: usize,
    total: Arc<AtomicUsize>,
    accounts: Arc<Accounts>,
}

type Accounts = Mutex<HashMap<String, Weak<AnswerAccount>>>;

fn lock(accounts: &Accounts) -> MutexGuard<'_, HashMap<String, Weak<AnswerAccount>>> {
    accounts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AnswerAccounts {
    /// Nothing is counted yet.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, total: Arc::default(), accounts: Arc::default() }
    }

    /// The account of a user.
    pub(super) fn of(&self, user: &str) -> Arc<AnswerAccount> {
        let mut accounts = lock(&self.accounts);
        if let Some(account) = accounts.get(user).and_then(Weak::upgrade) {
            return account;
        }
        let account = Arc::new(AnswerAccount {
            user: user.to_owned(),
            unread: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            limit: self.limit,
            total: Arc::clone(&self.total),
            accounts: Arc::clone(&self.accounts),
        });
        accounts.insert(user.to_owned(), Arc::downgrade(&account));
        account
    }
}

/// The answers of one user that are not read yet. It exists as long as a connection or an answer of
/// the user does.
#[derive(Debug)]
pub(crate) struct AnswerAccount {
    user: String,
    unread: AtomicUsize,
    connections: AtomicUsize,
    limit: usize,
    total: Arc<AtomicUsize>,
    accounts: Arc<Accounts>,
}

impl AnswerAccount {
    /// Whether an answer of about this many bytes may be made.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let left = self.limit.saturating_sub(self.total.load(Ordering::Relaxed));
        self.unread.load(Ordering::Relaxed) + bytes <= left
    }

    /// Whether not even refusals can be sent any more.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.unread.load(Ordering::Relaxed) > self.limit / 2 + self.limit / OVERDRAFT
    }

    /// Counts `bytes` until the last piece of them is dropped.
    pub(crate) fn hold(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        if bytes.len() < MIN_COUNTED {
            return bytes;
        }
        let charge = self.charge(bytes.len());
        Bytes::from_owner(HeldBytes { bytes, _charge: charge })
    }

    /// Counts this many bytes until the charge is dropped.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        self.unread.fetch_add(bytes, Ordering::Relaxed);
        self.total.fetch_add(bytes, Ordering::Relaxed);
        Charge { account: Arc::clone(self), bytes }
    }
}

/// A connection that counts for a user until this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionCharge(Arc<AnswerAccount>);

impl ConnectionCharge {
    /// One more connection of a user; None if there are `max_connections` already.
    pub(super) fn new(account: &Arc<AnswerAccount>, max_connections: usize) -> Option<Self> {
        let charge = Self(Arc::clone(account));
        (account.connections.fetch_add(1, Ordering::Relaxed) < max_connections).then_some(charge)
    }

    /// The account of the user.
    pub(crate) fn account(&self) -> &Arc<AnswerAccount> {
        &self.0
    }
}

impl Drop for ConnectionCharge {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for AnswerAccount {
    fn drop(&mut self) {
        let mut accounts = lock(&self.accounts);
        // Another may have taken its place already.
        if accounts.get(&self.user).is_some_and(|it| it.strong_count() == 0) {
            accounts.remove(&self.user);
        }
    }
}

/// Bytes that an account counts until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<AnswerAccount>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.unread.fetch_sub(self.bytes, Ordering::Relaxed);
        self.account.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The bytes of an answer, and their charge.
struct HeldBytes {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 20;

    #[test]
    fn bytes_count_until_their_last_piece_is_dropped() {
        let accounts = AnswerAccounts::new(LIMIT);
        let alice = accounts.of("alice");
        let mut bytes = alice.hold(vec![0; LIMIT / 2].into());
        assert!(!alice.has_room(1));
        let piece = bytes.split_to(10);
        drop(bytes);
        assert!(!alice.has_room(1));
        drop(piece);
        assert!(alice.has_room(LIMIT));
    }

    #[test]
    fn the_answers_of_one_user_leave_room_for_others() {
        let accounts = AnswerAccounts::new(LIMIT);
        let (alice, bob) = (accounts.of("alice"), accounts.of("bob"));
        let charges: Vec<Charge> = std::iter::from_fn(|| {
            alice.has_room(STREAM_OVERHEAD).then(|| alice.charge(STREAM_OVERHEAD))
        })
        .collect();
        assert_eq!(charges.len() * STREAM_OVERHEAD, LIMIT / 2);
        assert!(bob.has_room(LIMIT / 4));
    }

    #[test]
    fn an_account_is_shared_by_the_connections_of_a_user_and_removed_after_the_last() {
        let accounts = AnswerAccounts::new(LIMIT);
        let first = accounts.of("alice");
        let charge = first.charge(LIMIT);
        assert!(accounts.of("alice").is_overdrawn());
        drop(first);
        assert!(accounts.of("alice").is_overdrawn(), "its answer still counts");
        drop(charge);
        assert!(lock(&accounts.accounts).is_empty());
    }
}
