//! [`ControllerContext`]: what a controller gets when it starts.

use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::Pod;

use crate::controller_manager::ControllerManagerOptions;
use crate::resource_discovery::ResourceDiscovery;
use keel::{Clock, Entropy, Tasks};
use machinery::selector::FieldSelector;
use runtime::informer::Selection;
use runtime::recorder::Recorder;
use runtime::{Client, Lister, Manager};

/// See the [module documentation](self).
pub(crate) struct ControllerContext {
    /// The name of the controller.
    pub name: &'static str,
    /// Runs the controllers, and has the shared informers.
    pub manager: Manager,
    /// Writes as the service account of the controller. The shared caches show its writes at once.
    pub client: Client,
    /// Reads as the user of the shared caches, for lists and watches that are not cached.
    pub reader: Client,
    /// The settings of the plane.
    pub options: Arc<ControllerManagerOptions>,
    /// The discovery, which the first controller that needs it starts.
    pub shared_discovery: Arc<OnceLock<ResourceDiscovery>>,
}

impl ControllerContext {
    /// A recorder of events, whose source is this controller.
    pub(crate) fn recorder(&self) -> Recorder {
        self.manager.recorder_with(self.client.clone(), self.name)
    }

    /// The resources that the server serves.
    pub(crate) fn discovery(&self) -> ResourceDiscovery {
        self.shared_discovery.get_or_init(|| ResourceDiscovery::start(self)).clone()
    }

    /// The clock of the plane.
    pub(crate) fn clock(&self) -> &Clock {
        &self.options.clock
    }

    /// The source of randomness of the plane.
    pub(crate) fn entropy(&self) -> &Entropy {
        &self.options.entropy
    }

    /// The tasks that end when the controllers do, for loops that are not reconcile functions.
    pub(crate) fn tasks(&self) -> &Tasks {
        self.manager.tasks()
    }

    /// A lister of pods that decodes only the fields of `T`.
    pub(crate) fn pods<T>(&self) -> Lister<T> {
        self.manager.informer::<Pod>().lister()
    }
}

/// The objects of all namespaces whose `field` has this value, as a cache of their own.
pub(crate) fn selecting_field(field: &str, value: &str) -> Selection {
    let fields = FieldSelector::parse(&format!("{field}={value}"));
    Selection {
        fields: fields.expect("the field and its value are constants"),
        ..Selection::default()
    }
}
