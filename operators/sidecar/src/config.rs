//! [`ConfigSource`]: the sidecar of the `ConfigMap`, from the cache.

use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};

use crate::sidecar::{InvalidConfig, Sidecar};
use crate::{CONFIG_KEY, CONFIG_MAP};
use machinery::selector::FieldSelector;
use runtime::informer::{ObjectDecodeError, Selection};
use runtime::recorder::{EventType, Recorder};
use runtime::{Lister, Manager};

/// The reason why there is no sidecar.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Create it.
    #[error("there is no ConfigMap {0}/{CONFIG_MAP}")]
    NoConfigMap(String),
    /// Add the key.
    #[error(
        "the ConfigMap {0}/{CONFIG_MAP} has no key {CONFIG_KEY:?}: its data begins with `{CONFIG_KEY}: |`"
    )]
    NoKey(String),
    /// Correct the configuration.
    #[error(
        "the key {CONFIG_KEY:?} of the ConfigMap {namespace}/{CONFIG_MAP} is not valid: {error}"
    )]
    Invalid {
        /// The namespace of the `ConfigMap`.
        namespace: String,
        /// The line or field, and what is wrong with it.
        error: InvalidConfig,
    },
    /// Remove it, or start the operator with the option.
    #[error(
        "the ConfigMap {namespace}/{CONFIG_MAP} has {privilege}, which needs the option \
         --allow-privileges"
    )]
    Privilege {
        /// The namespace of the `ConfigMap`.
        namespace: String,
        /// The field, and what it gives.
        privilege: String,
    },
    /// The server sent something that is not a `ConfigMap`; not expected.
    #[error("the ConfigMap {namespace}/{CONFIG_MAP} cannot be decoded: {error}")]
    Undecodable {
        /// The namespace of the `ConfigMap`.
        namespace: String,
        /// The reason.
        error: String,
    },
}

/// See the [module documentation](self).
#[derive(Clone)]
pub(crate) struct ConfigSource {
    maps: Lister<ConfigMap>,
    namespace: String,
    allow_privileges: bool,
    /// Selects only the `ConfigMap`.
    selection: Selection,
}

impl ConfigSource {
    /// The `ConfigMap` in `namespace`, which the manager caches without others.
    pub(crate) fn new(manager: &Manager, namespace: &str, allow_privileges: bool) -> Self {
        let selection = Selection { namespace: Some(namespace.to_owned()), ..only(CONFIG_MAP) };
        let maps = manager.lister_selecting(&selection);
        Self { maps, namespace: namespace.to_owned(), allow_privileges, selection }
    }

    /// The selection of the `ConfigMap`, for controllers.
    pub(crate) fn selection(&self) -> Selection {
        self.selection.clone()
    }

    /// The namespace of the `ConfigMap`.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The present sidecar.
    pub(crate) fn read(&self) -> Result<Sidecar, ConfigError> {
        let namespace = || self.namespace.clone();
        let map = self.maps.shared(&self.namespace, CONFIG_MAP).map_err(|error| {
            ConfigError::Undecodable { namespace: namespace(), error: decode_error(&error) }
        })?;
        let map = map.ok_or_else(|| ConfigError::NoConfigMap(namespace()))?;
        let config = map.data.as_ref().and_then(|data| data.get(CONFIG_KEY));
        let config = config.ok_or_else(|| ConfigError::NoKey(namespace()))?;
        let sidecar = Sidecar::parse(config)
            .map_err(|error| ConfigError::Invalid { namespace: namespace(), error })?;
        match sidecar.privilege() {
            Some(privilege) if !self.allow_privileges => {
                Err(ConfigError::Privilege { namespace: namespace(), privilege })
            }
            _ => Ok(sidecar),
        }
    }

    /// Records an event about the `ConfigMap`, whether it exists or not.
    pub(crate) fn record(
        &self,
        recorder: &Recorder,
        event_type: EventType,
        reason: &str,
        message: &str,
    ) {
        let uid = self.maps.shared(&self.namespace, CONFIG_MAP).ok().flatten();
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("ConfigMap".to_owned()),
            name: Some(CONFIG_MAP.to_owned()),
            namespace: Some(self.namespace.clone()),
            uid: uid.and_then(|map| map.metadata.uid.clone()),
            ..ObjectReference::default()
        };
        recorder.record_about(regarding, event_type, reason, message);
    }
}

/// Selects the objects of one name.
pub(crate) fn only(name: &str) -> Selection {
    let fields = FieldSelector::parse(&format!("metadata.name={name}"));
    Selection {
        fields: fields.expect("a name of this operator has no special characters"),
        ..Selection::default()
    }
}

fn decode_error(error: &ObjectDecodeError) -> String {
    error.error.to_string()
}
