//! [`Connection`]: what the requests of one connection have in common.

use crate::authentication::User;
use crate::flow_control::{AnswerAccount, FlowControl};
use std::sync::{Arc, OnceLock};

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// Counts the answers that are not read: the account of the first user who was authenticated,
    /// None for masters. Who presents another token later uses the same connection, and its memory.
    account: OnceLock<Option<Arc<AnswerAccount>>>,
}

impl Connection {
    /// Notes that a request of `user` was authenticated; returns the account of its answer.
    pub(crate) fn authenticated(
        &self,
        flow: &FlowControl,
        user: &User,
    ) -> Option<&Arc<AnswerAccount>> {
        self.account.get_or_init(|| flow.answer_account(user)).as_ref()
    }

    /// The account of an answer; that of anonymous users as long as nobody was authenticated.
    pub(crate) fn account(&self, flow: &FlowControl) -> Option<Arc<AnswerAccount>> {
        match self.account.get() {
            Some(account) => account.clone(),
            None => flow.answer_account(&User::anonymous()),
        }
    }
}
