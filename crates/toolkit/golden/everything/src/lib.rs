//! The operator operator-demo: its kinds, controllers and webhooks.
//!
//! `sampan create` inserts lines above the comments that begin with `sampan:`.

use runtime::crd;
use runtime::prelude::*;
use runtime::versions::{CustomResourceDefinition, MergeError};
use runtime::webhook::WebhookSet;

pub mod custom_pod;
pub mod vpc;
// sampan:modules

/// The name of the operator.
pub const NAME: &str = env!("CARGO_PKG_NAME");

/// Each version of each kind.
const CRDS: &[fn() -> CustomResourceDefinition] = &[
    custom_pod::CustomPod::crd,
    vpc::Vpc::crd,
    custom_pod::v2::CustomPod::crd,
    custom_pod::v3::CustomPod::crd,
    // sampan:crds
];

/// A function for each controller.
const CONTROLLERS: &[fn(&Manager) -> Controller] = &[
    custom_pod::controller::controller,
    vpc::controller::controller,
    // sampan:controllers
];

/// A function for each webhook.
const WEBHOOKS: &[fn(WebhookSet) -> WebhookSet] = &[
    |set| set.mutating(custom_pod::defaulting::mutate),
    |set| set.validating(custom_pod::validation::validate),
    |set| set.converting::<custom_pod::conversion::CustomPodVersions>(),
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
