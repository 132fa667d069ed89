//! The controller of the `ConfigMap`: an Event says whether the configuration is valid.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;

use crate::ANNOTATION;
use crate::config::{ConfigError, ConfigSource};
use crate::sidecar::Sidecar;
use runtime::prelude::*;

/// The name of the operator in Events.
pub(crate) const REPORTER: &str = "sidecar-operator";

/// The `ConfigMap`, and the Events about it.
pub(crate) struct ConfigReporter {
    pub(crate) config: ConfigSource,
    pub(crate) recorder: Recorder,
}

impl ConfigReporter {
    pub(crate) fn new(manager: &Manager, config: &ConfigSource) -> Self {
        Self { config: config.clone(), recorder: manager.recorder(REPORTER) }
    }

    /// The present sidecar. An Event reports the result; `otherwise` says what happens to pods without
    /// a valid configuration.
    pub(crate) fn read(&self, otherwise: &str) -> Option<Sidecar> {
        match self.config.read() {
            Ok(sidecar) => {
                let names = sidecar.container_names();
                let message =
                    format!("new pods with {ANNOTATION}: \"true\" get the containers: {names}");
                self.config.record(&self.recorder, EventType::Normal, "ConfigAccepted", &message);
                Some(sidecar)
            }
            Err(error) => {
                let reason = match &error {
                    ConfigError::NoConfigMap(_) => "ConfigMissing",
                    _ => "InvalidConfig",
                };
                let message = format!("{error}; {otherwise}");
                tracing::warn!("{message}");
                self.config.record(&self.recorder, EventType::Warning, reason, &message);
                None
            }
        }
    }
}

/// Reports the configuration when it changes.
pub(crate) fn controller(manager: &Manager, config: &ConfigSource) -> Controller {
    Controller::for_::<ConfigMap>()
        .selecting(config.selection())
        .reconcile(reconcile, ConfigReporter::new(manager, config))
}

async fn reconcile(_: Request, reporter: Arc<ConfigReporter>) -> Result<Action, Failure> {
    reporter.read("new pods with the annotation are refused until it is corrected");
    Ok(Action::Done)
}
