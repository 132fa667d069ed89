//! The mutating webhook: responds to the creation of a pod with the pod and its sidecar.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};

use crate::INJECTION;
use crate::config::ConfigSource;
use runtime::Manager;
use runtime::kube_core::admission::AdmissionRequest;
use runtime::webhook::{
    CertificateOptions, Changed, Denied, InjectionTarget, ServerOptions, WebhookServer, admission,
};

/// The path of the webhook.
pub(crate) const PATH: &str = "/inject";

/// Serves the webhook while the manager runs, as leader or not.
pub(crate) fn serve(manager: &Manager, config: ConfigSource, listen: SocketAddr) {
    let synced = manager.informer_selecting::<ConfigMap>(&config.selection()).has_synced();
    let handler = admission::mutating(move |request: AdmissionRequest<Pod>| {
        let changed = match request.object {
            Some(pod) => inject(&pod, &config),
            None => Ok(Changed::nothing()),
        };
        async move { changed }
    });
    let mut certificates = CertificateOptions::of_service("operators", "sidecar-webhooks");
    certificates.names.extend(["localhost", "127.0.0.1"].map(str::to_owned));
    let server = WebhookServer::new(ServerOptions { listen, ..ServerOptions::default() });
    manager.serve_webhooks(
        server.at(PATH, handler.after_sync(synced)),
        certificates,
        [InjectionTarget::Mutating(INJECTION.to_owned())],
    );
}

fn inject(pod: &Pod, config: &ConfigSource) -> Result<Changed<Pod>, Denied> {
    let failed =
        |why: &dyn std::fmt::Display| Denied::new(format!("the pod cannot get its sidecar: {why}"));
    let mut value = serde_json::to_value(pod).map_err(|error| failed(&error))?;
    // Pods without the annotation do not depend on the configuration.
    if !crate::is_requested(&value) {
        return Ok(Changed::nothing());
    }
    let sidecar = config.read().map_err(|error| failed(&error))?;
    let Some(patch) = sidecar.patch(&value) else { return Ok(Changed::nothing()) };
    let ty = types::find("core/v1.Pod").expect("pods are built in");
    types::strategic::apply(ty, &mut value, &patch).map_err(|error| failed(&error))?;
    Ok(Changed::to(serde_json::from_value(value).map_err(|error| failed(&error))?))
}
