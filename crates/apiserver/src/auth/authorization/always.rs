//! [`AlwaysAllow`] and [`AlwaysDeny`]: authorizers that decide without looking at the request.

use super::{Attributes, Authorization, Authorizer, Decision, Rules};
use crate::auth::authentication::User;

/// Allows every request on which no earlier authorizer has decided.
#[derive(Debug)]
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn name(&self) -> &'static str {
        "alwaysallow"
    }

    fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> Authorization<'a> {
        Decision::allow().into()
    }

    fn rules(&self, _: &User, _: &str, rules: &mut Rules) {
        rules.add_all();
    }
}

/// Allows no request.
#[derive(Debug)]
pub struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn name(&self) -> &'static str {
        "alwaysdeny"
    }

    fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> Authorization<'a> {
        Decision::no_opinion("Everything is forbidden.").into()
    }

    fn rules(&self, _: &User, _: &str, _: &mut Rules) {}
}
