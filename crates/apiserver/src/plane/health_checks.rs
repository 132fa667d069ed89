//! [`HealthChecks`]: health checks of other parts of the process, such as controllers.

use std::sync::{Arc, Mutex, PoisonError};

/// Returns the reason if the check fails.
pub(crate) type HealthCheck = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The health endpoints that run a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckScope {
    /// `/healthz`, `/livez` and `/readyz`.
    Health,
    /// `/readyz`.
    Readiness,
    /// No endpoint: the check is that of a component in `componentstatuses`.
    Component,
}

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct HealthChecks(Mutex<Vec<NamedCheck>>);

/// A check with its name.
#[derive(Clone)]
pub(crate) struct NamedCheck {
    pub(crate) name: String,
    pub(crate) scope: CheckScope,
    pub(crate) check: HealthCheck,
}

impl HealthChecks {
    /// Adds a check, or replaces the one with this name.
    pub(crate) fn add(&self, added: NamedCheck) {
        let mut checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_component = |it: &NamedCheck| it.scope == CheckScope::Component;
        checks.retain(|it| it.name != added.name || is_component(it) != is_component(&added));
        checks.push(added);
    }

    /// The checks of an endpoint.
    pub(crate) fn of(&self, endpoint: &str) -> Vec<NamedCheck> {
        let checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_included = |it: &&NamedCheck| match it.scope {
            CheckScope::Health => true,
            CheckScope::Readiness => endpoint == "readyz",
            CheckScope::Component => false,
        };
        checks.iter().filter(is_included).cloned().collect()
    }

    /// The check of a component that runs in this process.
    pub(crate) fn of_component(&self, name: &str) -> Option<HealthCheck> {
        let checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_named = |it: &&NamedCheck| it.scope == CheckScope::Component && it.name == name;
        checks.iter().find(is_named).map(|it| Arc::clone(&it.check))
    }
}
