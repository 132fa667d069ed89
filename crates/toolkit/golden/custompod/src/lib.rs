//! The operator operator-demo: its kinds, controllers and webhooks.
//!
//! `sampan create` inserts lines above the comments that begin with `sampan:`.

use runtime::crd;
use runtime::prelude::*;
use runtime::versions::{CustomResourceDefinition, MergeError};
use runtime::webhook::WebhookSet;

pub mod custom_pod;
// sampan:modules

/// The name of the operator.
pub const NAME: &str = env!("CARGO_PKG_NAME");

/// Each version of each kind.
const CRDS: &[fn() -> CustomResourceDefinition] = &[
    custom_pod::CustomPod::crd,
    // sampan:crds
];

/// A function for each controller.
const CONTROLLERS: &[fn(&Manager) -> Controller] = &[
    custom_pod::controller::controller,
    // sampan:controllers
];

/// A function for each webhook.
const WEBHOOKS: &[fn(WebhookSet) -> WebhookSet] = &[
    // sampan:webhooks
];

/// The custom resource definitions.
pub fn crds() -> Result<Vec<CustomResourceDefinition>, MergeError> {
    crd::merge(CRDS.iter().map(|crd| crd()))
}

/// Adds the controllers to a manager.
pub fn add_to(manager: &Manager) {
    for controller in CONTROLLERS {
        manager.add(controller(manager));
    }
}

/// The webhooks.
pub fn webhooks() -> WebhookSet {
    WEBHOOKS.iter().fold(WebhookSet::new(NAME), |set, add| add(set))
}
