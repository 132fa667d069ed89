//! The group `system:masters`, whose members may do everything. No other module knows its name.

use crate::auth::authentication::User;

const GROUP: &str = "system:masters";

/// A member of the group.
pub(crate) fn member(name: &str) -> User {
    User::authenticated(name, "", vec![GROUP.to_owned()])
}

/// The groups of a client certificate that makes its holder a member.
pub(crate) const GROUPS: [&str; 1] = [GROUP];

/// Whether a user is a member. Only flow control asks this, as the flow schema `exempt` does; whether
/// a request is allowed is what authorizers decide.
pub(crate) fn contains(user: &User) -> bool {
    user.is_in(GROUP)
}

/// Whether this is the name of the group.
pub(crate) fn is_named(group: &str) -> bool {
    group == GROUP
}
