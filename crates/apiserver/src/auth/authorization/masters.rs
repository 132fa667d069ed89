//! The group `system:masters`, whose members may do everything. Other modules call these functions
//! instead of comparing with the name of the group.

use super::{Attributes, Authorization, Authorizer, Decision, Rules};
use crate::auth::authentication::User;

const GROUP: &str = "system:masters";

/// Allows everything to the group.
#[derive(Debug)]
pub(super) struct Masters;

impl Authorizer for Masters {
    fn name(&self) -> &'static str {
        "masters"
    }

    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Authorization<'a> {
        if contains(attributes.user) {
            return Decision::allow().into();
        }
        Decision::no_opinion("").into()
    }

    /// Adds none: the roles list the rights of the group.
    fn rules(&self, _: &User, _: &str, _: &mut Rules) {}
}

/// A member of the group.
pub(crate) fn member(name: &str) -> User {
    User::authenticated(name, "", vec![GROUP.to_owned()])
}

/// The groups of the client certificate of a member.
pub(crate) const GROUPS: [&str; 1] = [GROUP];

/// Whether a user is a member. Besides the authorizers, only flow control calls this: upstream's flow
/// schema `exempt` selects the group.
pub(crate) fn contains(user: &User) -> bool {
    user.is_in(GROUP)
}

/// Whether `group` is the name of the group.
pub(crate) fn is_masters_group(group: &str) -> bool {
    group == GROUP
}
