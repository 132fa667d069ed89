//! [`AnswerAccounts`]: the memory of answers that clients have not read yet, counted for each user.
//!
//! A client that does not read keeps the bytes of its answers in memory: in the body, and then in
//! the buffers of the HTTP library, which outlive the body. Bytes are therefore counted as long as
//! they exist, by an owner inside of the `Bytes` ([`AnswerAccount::hold`]). Each answer in progress
//! also counts [`STREAM_OVERHEAD`] bytes for its stream.
//!
//! The limit is shared as in [`shares`](super::shares): a user has room while their count is not
//! larger than the rest, so one user can fill half of it. Counting takes no lock and never fails,
//! since a committed write must be answered. Instead, the next request is refused:
//!
//! ```text
//! room        requests are served
//! no room     requests are refused with 429 before any work, large events end their watch
//! overdrawn   requests get no answer at all: their streams are reset
//! ```

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use keel::{ThreadShare, Threads};

/// The memory of an answer in progress besides its bytes: its stream, its request, its task.
pub(crate) const STREAM_OVERHEAD: usize = 8 << 10;

/// The size from which bytes are counted; [`STREAM_OVERHEAD`] covers smaller pieces.
const MIN_COUNTED: usize = 2 << 10;

/// A user whose unread answers exceed half of the limit by `limit / OVERDRAFT` is overdrawn.
const OVERDRAFT: usize = 6;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct AnswerAccounts {
    limit: usize,
    total: Arc<AtomicUsize>,
    threads: Arc<Threads>,
    accounts: Arc<Accounts>,
}

type Accounts = Mutex<HashMap<String, Weak<AnswerAccount>>>;

fn lock(accounts: &Accounts) -> MutexGuard<'_, HashMap<String, Weak<AnswerAccount>>> {
    accounts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AnswerAccounts {
    /// Accounts with a common limit.
    pub(super) fn new(limit: usize, threads: &Arc<Threads>) -> Self {
        let threads = Arc::clone(threads);
        Self { limit, total: Arc::default(), threads, accounts: Arc::default() }
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
            threads: self.threads.share(),
            accounts: Arc::clone(&self.accounts),
        });
        accounts.insert(user.to_owned(), Arc::downgrade(&account));
        account
    }
}

/// Counts the unread answers and the connections of one user. It exists as long as one of these does.
#[derive(Debug)]
pub(crate) struct AnswerAccount {
    user: String,
    unread: AtomicUsize,
    connections: AtomicUsize,
    limit: usize,
    total: Arc<AtomicUsize>,
    /// The user's share of the threads.
    pub threads: Arc<ThreadShare>,
    accounts: Arc<Accounts>,
}

impl AnswerAccount {
    /// Whether the limit allows an answer of about this many bytes.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let left = self.limit.saturating_sub(self.total.load(Ordering::Relaxed));
        self.unread.load(Ordering::Relaxed) + bytes <= left
    }

    /// Whether even error responses would exceed the limit.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.unread.load(Ordering::Relaxed) > self.limit / 2 + self.limit / OVERDRAFT
    }

    /// Counts `bytes` until the last reference to them is dropped.
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
    /// Counts a connection of a user; None if the user has `max_connections` already.
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
        // A new account of the same user may already have replaced this one.
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

/// The bytes of an answer and the charge for them.
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
        let accounts = AnswerAccounts::new(LIMIT, &Threads::current());
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
        let accounts = AnswerAccounts::new(LIMIT, &Threads::current());
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
        let accounts = AnswerAccounts::new(LIMIT, &Threads::current());
        let first = accounts.of("alice");
        let charge = first.charge(LIMIT);
        assert!(accounts.of("alice").is_overdrawn());
        drop(first);
        assert!(accounts.of("alice").is_overdrawn(), "the answer still counts");
        drop(charge);
        assert!(lock(&accounts.accounts).is_empty());
    }
}
