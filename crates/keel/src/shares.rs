//! [`Shares`]: a limited amount, for instance of memory, that users share fairly.
//!
//! A user gets more only if the user's total is then not larger than what was left. In small steps,
//! one user gets half of the amount, the next one half of the rest, and so on: a user without a share
//! is refused only after many other users have taken theirs.
//!
//! ```text
//! total 8      alice takes 4, is refused the 5th      bob takes 2, is refused the 3rd
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Shares {
    total: usize,
    taken: Mutex<Taken>,
}

/// Invariant: `all` is the sum of `by_user`, which has no zeros. It exceeds the total only through
/// [`Shares::take_or_first`].
#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_user: HashMap<String, usize>,
}

impl Taken {
    fn add(&mut self, user: &str, amount: usize) {
        self.all += amount;
        match self.by_user.get_mut(user) {
            Some(has) => *has += amount,
            None if amount > 0 => {
                self.by_user.insert(user.to_owned(), amount);
            }
            None => {}
        }
    }

    fn remove(&mut self, user: &str, amount: usize) {
        self.all -= amount;
        if let Some(has) = self.by_user.get_mut(user) {
            *has -= amount;
            if *has == 0 {
                self.by_user.remove(user);
            }
        }
    }
}

impl Shares {
    /// Shares of `total`, none of which is taken.
    pub fn new(total: usize) -> Arc<Self> {
        Arc::new(Self { total, taken: Mutex::default() })
    }

    /// Takes a share of `amount`; None if that would leave too little for other users.
    pub fn take(self: &Arc<Self>, user: &str, amount: usize) -> Option<Share> {
        let mut share = Share { shares: Arc::clone(self), user: user.to_owned(), amount: 0 };
        share.grow(amount).then_some(share)
    }

    /// Like [`Shares::take`], but a user without a share always gets the amount, however large.
    pub fn take_or_first(self: &Arc<Self>, user: &str, amount: usize) -> Option<Share> {
        if let Some(share) = self.take(user, amount) {
            return Some(share);
        }
        let mut share = self.take(user, 0)?;
        let mut taken = self.taken();
        if taken.by_user.contains_key(user) {
            return None;
        }
        taken.add(user, amount);
        drop(taken);
        share.amount = amount;
        Some(share)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The share of a user, released when it is dropped.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    user: String,
    amount: usize,
}

impl Share {
    /// Takes more; returns false and changes nothing if that would leave too little for other users.
    pub fn grow(&mut self, more: usize) -> bool {
        let mut taken = self.shares.taken();
        let has = taken.by_user.get(&self.user).copied().unwrap_or(0);
        let left = self.shares.total.saturating_sub(taken.all);
        if has + more > left {
            return false;
        }
        taken.add(&self.user, more);
        self.amount += more;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shares.taken().remove(&self.user, self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(shares: &Arc<Shares>, user: &str) -> Vec<Share> {
        std::iter::from_fn(|| shares.take(user, 1)).collect()
    }

    #[test]
    fn a_user_leaves_as_much_as_they_take() {
        let shares = Shares::new(16);
        let users = ["a", "b", "c", "d", "e", "f"];
        let all: Vec<Vec<Share>> = users.iter().map(|user| take_all(&shares, user)).collect();
        let counts: Vec<usize> = all.iter().map(Vec::len).collect();
        assert_eq!(counts, [8, 4, 2, 1, 1, 0]);
        drop(all);
        assert!(shares.taken().by_user.is_empty());
        assert_eq!(take_all(&shares, "a").len(), 8, "all shares were released");
    }

    #[test]
    fn a_share_grows_while_enough_is_left() {
        let shares = Shares::new(100);
        let mut share = shares.take("a", 0).unwrap();
        assert!(share.grow(40) && !share.grow(21) && share.grow(20));
        assert!(shares.take("b", 41).is_none());
        assert!(shares.take("b", 40).is_some());
    }
}
