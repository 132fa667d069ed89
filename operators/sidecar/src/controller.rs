//! The controller of the `ConfigMap`: an Event says whether the configuration is valid.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;

use crate::ANNOTATION;
use crate::config::{ConfigError, ConfigSource};
use crate::sidecar::Sidecar;
use runtime::prelude::*;

/// The name of the operator in Events, and in the label of what it writes.
pub const REPORTER: &str = "sidecar-operator";

/// The `ConfigMap`, and the Events about it.
pub(crate) struct ConfigReporter {
    pub(crate) config: ConfigSource,
    pub(crate) recorder: Recorder,
}

impl ConfigReporter {
    pub(crate) fn new(manager: &Manager, config: &ConfigSource) -> Self {
        Self { config: config.clone(), recorder: manager.recorder(REPORTER) }
    }

    /// The present sidecar. An Event reports why there is none; `otherwise` says what then happens to
    /// pods.
    pub(crate) fn read(&self, otherwise: &str) -> Option<Sidecar> {
        match self.config.read() {
            Ok(sidecar) => Some(sidecar),
            Err(error) => {
                let reason = match &error {
                    ConfigError::NoConfigMap(_) => "ConfigMissing",
                    _ => "InvalidConfig",
                };
                let message = format!("{error}; {otherwise}");
                self.warn(reason, &message);
                None
            }
        }
    }

    /// Reports that new pods get this sidecar.
    pub(crate) fn accept(&self, sidecar: &Sidecar) {
        let names = sidecar.container_names();
        let message = format!("new pods with {ANNOTATION}: \"true\" get the containers: {names}");
        self.config.record(&self.recorder, EventType::Normal, "ConfigAccepted", &message);
    }

    /// Reports that new pods do not get the sidecar of the `ConfigMap`.
    pub(crate) fn warn(&self, reason: &str, message: &str) {
        tracing::warn!("{message}");
        self.config.record(&self.recorder, EventType::Warning, reason, message);
    }
}

/// Reports the configuration when it changes.
pub(crate) fn controller(manager: &Manager, config: &ConfigSource) -> Controller {
    Controller::for_::<ConfigMap>()
        .selecting(config.selection())
        .reconcile(reconcile, ConfigReporter::new(manager, config))
}

async fn reconcile(_: Request, reporter: Arc<ConfigReporter>) -> Result<Action, Failure> {
    let sidecar = reporter.read("new pods with the annotation are refused until it is corrected");
    if let Some(sidecar) = sidecar {
        reporter.accept(&sidecar);
    }
    Ok(Action::Done)
}
