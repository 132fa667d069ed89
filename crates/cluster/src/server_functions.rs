//! What the API server does for the controllers, beyond its API: it signs with its keys, and serves
//! the metrics of simulated pods.

use std::pin::Pin;
use std::sync::Arc;

use apiserver::Server;
use apiserver::auth::authentication::service_account::LegacyClaims;
use controllers::signers::{ApprovedRequest, TokenSubject};
use controllers::{MetricsApi, Signers};

/// Functions that sign with the keys of the server.
pub fn signers(server: &Server) -> Signers {
    let (token_keys, certificate_keys) = (server.signing_keys(), server.signing_keys());
    Signers {
        proxy_names: server.signing_keys().proxy_names(),
        token: Arc::new(move |subject: &TokenSubject| {
            let claims = LegacyClaims {
                namespace: subject.namespace.clone(),
                name: subject.account.clone(),
                uid: subject.account_uid.clone(),
                secret: subject.secret.clone(),
            };
            token_keys.sign_legacy_token(&claims).ok_or_else(|| "the token was not signed".into())
        }),
        certificate: Arc::new(move |approved: &ApprovedRequest| {
            let ApprovedRequest { request, usages, lifetime } = approved;
            Ok(certificate_keys.sign_certificate(request, usages, *lifetime)?)
        }),
    }
}

/// Makes the server answer requests for metrics with `metrics_api`.
pub fn serve_metrics(config: &mut apiserver::Config, metrics_api: &MetricsApi) {
    let (namespace, name) = MetricsApi::SERVICE;
    let metrics_api = metrics_api.clone();
    let service = move |request| -> Pin<Box<dyn Future<Output = _> + Send>> {
        let metrics_api = metrics_api.clone();
        Box::pin(async move { metrics_api.respond(request).await })
    };
    config.in_process_services.add(namespace, name, Arc::new(service));
}
