//! The Network operator: an IP network for each Network, in OpenStack Neutron or on this machine.
//!
//! ```text
//! Network (API) ─▶ informer ─▶ queue ─▶ reconcile ─▶ Backend::plan ─▶ Backend::make ─▶ status, Event
//! ```
//!
//! README.md is its tutorial.

pub mod api;
pub mod backend;
pub mod controller;
mod manifests;
mod options;
mod address_index;
mod overlap;
mod resync;

use std::sync::Arc;

pub use manifests::manifests;
pub use options::{BackendKind, Options, without_empty_variable};

use address_index::AddressIndex;
use api::{Network, v2};
use backend::Backend;
use backend::dry_run::DryRun;
use backend::neutron::Neutron;
use runtime::Manager;
use runtime::webhook::{
    CertificateOptions, InjectionTarget, ServerOptions, WebhookServer, admission, conversion,
};

/// The name of the operator.
pub const NAME: &str = "network";

/// The namespace of the operator's lease and certificates.
pub const NAMESPACE: &str = "operators";

/// The name of the CRD and of the webhook configuration.
const CRD: &str = "networks.samplecrd.k8s.io";

/// The reason why the operator cannot be added to a manager.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Correct the options of Neutron.
    #[error("the options of Neutron are not valid")]
    Neutron(#[source] backend::neutron::OptionsError),
    /// Choose another backend.
    #[error("the backend linux needs Linux and root")]
    NoLinux,
}

/// Adds the controller and the webhooks to a manager.
pub fn add_to(manager: &Manager, options: &Options) -> Result<(), Error> {
    match options.backend_kind() {
        BackendKind::DryRun => add_with(manager, options, Arc::new(DryRun::default())),
        BackendKind::Neutron => {
            let neutron = Neutron::new(&options.neutron).map_err(Error::Neutron)?;
            add_with(manager, options, Arc::new(neutron));
        }
        #[cfg(target_os = "linux")]
        BackendKind::Linux if options::is_root() => {
            add_with(manager, options, Arc::new(backend::linux::Linux::default()));
        }
        BackendKind::Linux => return Err(Error::NoLinux),
    }
    Ok(())
}

/// Adds the controller, with a backend of the caller, and the webhooks.
pub fn add_with<B: Backend>(manager: &Manager, options: &Options, backend: Arc<B>) {
    controller::add(manager, options, backend);
    let informer = manager.informer::<v2::Network>();
    let addresses = AddressIndex::new(informer.indexer());
    let validate = admission::validating(move |request| {
        let decision = overlap::validate(request, &addresses);
        async move { decision }
    });
    // Unlike the conversion, which the cache itself may need.
    let validate = validate.after_sync(informer.has_synced());
    let keep_status = admission::mutating(|request| {
        let changed = api::keep_status(request);
        async move { Ok(changed) }
    });
    let mut certificates = CertificateOptions::of_service(NAMESPACE, "network-webhooks");
    // Beside the API server, not in a pod.
    certificates.names.extend(["localhost".to_owned(), "127.0.0.1".to_owned()]);
    let listen = options.webhook_listen;
    manager.serve_webhooks(
        WebhookServer::new(ServerOptions { listen, ..ServerOptions::default() })
            .at("/validate", validate)
            .at("/keep-status", keep_status)
            .at("/convert", conversion::converting::<Network>()),
        certificates,
        [
            InjectionTarget::Validating(CRD.to_owned()),
            InjectionTarget::Mutating(CRD.to_owned()),
            InjectionTarget::Conversion(CRD.to_owned()),
        ],
    );
}
