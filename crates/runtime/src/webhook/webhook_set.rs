//! [`WebhookSet`]: the webhooks of an operator, from which both its server and the configurations that
//! name it are made.
//!
//! ```no_run
//! use runtime::{Manager, Versions, kube_core::admission::AdmissionRequest, versions::Versions as _};
//! use runtime::webhook::{Allowed, CertificateOptions, Denied, ServerOptions, WebhookSet};
//! # #[runtime::resource(group = "example.com", version = "v1", kind = "Site")]
//! # struct SiteSpec { pages: u32 }
//! # #[derive(Versions)]
//! # enum SiteVersions { #[versions(storage)] V1(Site) }
//!
//! async fn validate(request: AdmissionRequest<Site>) -> Result<Allowed, Denied> {
//!     match request.object {
//!         Some(site) if site.spec.pages == 0 => Err(Denied::invalid("spec.pages", "there are none")),
//!         _ => Ok(Allowed::default()),
//!     }
//! }
//!
//! fn webhooks() -> WebhookSet {
//!     WebhookSet::new("site-operator").validating(validate).converting::<SiteVersions>()
//! }
//!
//! # fn example(manager: &Manager) -> Result<(), Box<dyn std::error::Error>> {
//! let certificates = CertificateOptions::of_service("operators", "site-webhooks");
//! webhooks().serve(manager, ServerOptions::default(), certificates);
//!
//! let manifests = webhooks().manifests([SiteVersions::crd()?], "operators", "site-webhooks")?;
//! println!("{}", serde_json::to_string_pretty(&manifests)?); // for `kubectl apply -f -`
//! # Ok(())
//! # }
//! ```
//!
//! A function with a context gets what it reads from the manager that serves it, so that the manifests
//! need no manager:
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
//! # use runtime::{Lister, Manager, kube_core::admission::AdmissionRequest};
//! # use runtime::webhook::{Allowed, Denied, WebhookSet};
//! async fn validate(
//!     request: AdmissionRequest<ConfigMap>,
//!     namespaces: Arc<Lister<Namespace>>,
//! ) -> Result<Allowed, Denied> {
//!     # drop((request, namespaces));
//!     Ok(Allowed::default())
//! }
//!
//! fn webhooks() -> WebhookSet {
//!     WebhookSet::new("site-operator")
//!         .validating_with(validate, |manager: &Manager| manager.lister())
//!         .after_sync(|manager| manager.informer::<Namespace>().has_synced())
//! }
//! # drop(webhooks());
//! ```
//!
//! A path is `/validate-GROUP-VERSION-KIND`, `/mutate-GROUP-VERSION-KIND` or `/convert-GROUP-KIND`, in
//! lower case and with `-` instead of dots. A webhook is called for the creation and each update of an
//! object, in all versions of its kind, and a request fails if the operator cannot be reached.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, WebhookConversion,
};
use kube_core::Resource;
use kube_core::admission::AdmissionRequest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    Allowed, CertificateOptions, Changed, Denied, Handler, InjectionTarget, ServerOptions,
    WebhookServer, admission, conversion,
};
use crate::Manager;
use crate::versions::Versions;
use informer::HasSynced;

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub struct WebhookSet {
    name: String,
    webhooks: Vec<Webhook>,
}

#[derive(Clone)]
struct Webhook {
    review: Review,
    path: String,
    group: String,
    version: String,
    plural: String,
    make_handler: Arc<MakeHandler>,
}

/// Makes a handler, with the caches of the manager that serves it.
type MakeHandler = dyn Fn(&Manager) -> Handler + Send + Sync;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Review {
    Mutating,
    Validating,
    Conversion,
}

impl Review {
    /// The first part of a path, and of the name of a webhook.
    fn verb(self) -> &'static str {
        match self {
            Self::Mutating => "mutate",
            Self::Validating => "validate",
            Self::Conversion => "convert",
        }
    }
}

impl WebhookSet {
    /// A set without webhooks. The configurations are named `name`.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), webhooks: Vec::new() }
    }

    /// Adds a function that changes objects before they are validated and stored.
    #[must_use]
    pub fn mutating<K, F, A>(self, change: F) -> Self
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Send + 'static,
        F: Fn(AdmissionRequest<K>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Changed<K>, Denied>> + Send + 'static,
    {
        self.with_handler::<K>(Review::Mutating, admission::mutating(change))
    }

    /// Adds a function with a context that changes objects before they are validated and stored.
    /// `context` makes the context when a manager serves the webhooks.
    #[must_use]
    pub fn mutating_with<K, C, F, A>(
        self,
        change: F,
        context: impl Fn(&Manager) -> C + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Send + 'static,
        C: Send + Sync + 'static,
        F: Fn(AdmissionRequest<K>, Arc<C>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Result<Changed<K>, Denied>> + Send + 'static,
    {
        self.with::<K>(Review::Mutating, move |manager| {
            admission::mutating_with(change.clone(), context(manager))
        })
    }

    /// Adds a function that refuses objects that are not valid.
    #[must_use]
    pub fn validating<K, F, A>(self, validate: F) -> Self
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + 'static,
        F: Fn(AdmissionRequest<K>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Allowed, Denied>> + Send + 'static,
    {
        self.with_handler::<K>(Review::Validating, admission::validating(validate))
    }

    /// Adds a function with a context that refuses objects that are not valid. `context` makes the
    /// context when a manager serves the webhooks.
    #[must_use]
    pub fn validating_with<K, C, F, A>(
        self,
        validate: F,
        context: impl Fn(&Manager) -> C + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + 'static,
        C: Send + Sync + 'static,
        F: Fn(AdmissionRequest<K>, Arc<C>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Result<Allowed, Denied>> + Send + 'static,
    {
        self.with::<K>(Review::Validating, move |manager| {
            admission::validating_with(validate.clone(), context(manager))
        })
    }

    /// Lets the last added webhook wait for the cache that it reads, as
    /// [`Handler::after_sync`] does.
    #[must_use]
    pub fn after_sync(
        mut self,
        cache: impl Fn(&Manager) -> HasSynced + Send + Sync + 'static,
    ) -> Self {
        if let Some(last) = self.webhooks.last_mut() {
            let make_handler = Arc::clone(&last.make_handler);
            last.make_handler =
                Arc::new(move |manager| make_handler(manager).after_sync(cache(manager)));
        }
        self
    }

    /// Adds the conversion between the versions of a kind.
    #[must_use]
    pub fn converting<V: Versions + 'static>(self) -> Self {
        self.with_handler::<V::Stored>(Review::Conversion, conversion::converting::<V>())
    }

    fn with_handler<K: Resource<DynamicType = ()>>(self, review: Review, handler: Handler) -> Self {
        self.with::<K>(review, move |_| handler.clone())
    }

    fn with<K: Resource<DynamicType = ()>>(
        mut self,
        review: Review,
        make_handler: impl Fn(&Manager) -> Handler + Send + Sync + 'static,
    ) -> Self {
        let make_handler = Arc::new(make_handler);
        let (group, version) = (K::group(&()).into_owned(), K::version(&()).into_owned());
        let (kind, plural) = (K::kind(&()), K::plural(&()).into_owned());
        let parts = match review {
            Review::Conversion => [review.verb(), &group, &kind].join("-"),
            _ => [review.verb(), &group, &version, &kind].join("-"),
        };
        let path = format!("/{}", parts.replace('.', "-").to_lowercase());
        self.webhooks.push(Webhook { review, path, group, version, plural, make_handler });
        self
    }

    /// Whether there are no webhooks.
    pub fn is_empty(&self) -> bool {
        self.webhooks.is_empty()
    }

    /// Lets a manager serve the webhooks, and write its CA into their configurations. Without
    /// webhooks, this does nothing.
    pub fn serve(
        self,
        manager: &Manager,
        options: ServerOptions,
        certificates: CertificateOptions,
    ) {
        if self.is_empty() {
            return;
        }
        let targets = self.targets();
        let webhooks = self.webhooks.into_iter();
        let server = webhooks.fold(WebhookServer::new(options), |server, webhook| {
            server.at(&webhook.path, (webhook.make_handler)(manager))
        });
        manager.serve_webhooks(server, certificates, targets);
    }

    fn targets(&self) -> Vec<InjectionTarget> {
        let mut targets = Vec::new();
        for webhook in &self.webhooks {
            let target = match webhook.review {
                Review::Mutating => InjectionTarget::Mutating(self.name.clone()),
                Review::Validating => InjectionTarget::Validating(self.name.clone()),
                Review::Conversion => InjectionTarget::Conversion(webhook.crd()),
            };
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        targets
    }

    /// The CRDs, with the conversions, and the webhook configurations, for a Service with this
    /// namespace and name.
    pub fn manifests(
        &self,
        crds: impl IntoIterator<Item = CustomResourceDefinition>,
        namespace: &str,
        service: &str,
    ) -> serde_json::Result<Vec<Value>> {
        let client_config = |path: &str| json!({"service": {"namespace": namespace, "name": service, "path": path}});
        let mut manifests = Vec::new();
        for mut crd in crds {
            let is_converted = |it: &&Webhook| {
                it.review == Review::Conversion && crd.metadata.name.as_ref() == Some(&it.crd())
            };
            if let Some(webhook) = self.webhooks.iter().find(is_converted) {
                crd.spec.conversion = Some(CustomResourceConversion {
                    strategy: "Webhook".to_owned(),
                    webhook: Some(WebhookConversion {
                        client_config: serde_json::from_value(client_config(&webhook.path))?,
                        conversion_review_versions: vec!["v1".to_owned()],
                    }),
                });
            }
            manifests.push(serde_json::to_value(crd)?);
        }
        for (review, kind) in [
            (Review::Mutating, "MutatingWebhookConfiguration"),
            (Review::Validating, "ValidatingWebhookConfiguration"),
        ] {
            let own = self.webhooks.iter().filter(|webhook| webhook.review == review);
            let webhooks: Vec<Value> =
                own.map(|webhook| webhook.manifest(&client_config(&webhook.path))).collect();
            if !webhooks.is_empty() {
                manifests.push(json!({
                    "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                    "metadata": {"name": self.name}, "webhooks": webhooks,
                }));
            }
        }
        Ok(manifests)
    }
}

impl Webhook {
    /// The name of the CRD.
    fn crd(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    fn manifest(&self, client_config: &Value) -> Value {
        json!({
            "name": format!("{}.{}.{}", self.review.verb(), self.plural, self.group),
            "clientConfig": client_config,
            "rules": [{
                "apiGroups": [self.group], "apiVersions": [self.version],
                "resources": [self.plural], "operations": ["CREATE", "UPDATE"],
            }],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        })
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Webhook").field(&self.path).finish()
    }
}

#[cfg(test)]
mod tests {
    use kube_core::CustomResourceExt;

    use super::*;

    #[crate::resource(crate_path = crate, group = "example.com", version = "v1", kind = "Site")]
    struct SiteSpec {
        pages: u32,
    }

    #[derive(derive::Versions)]
    #[versions(crate_path = crate)]
    #[allow(dead_code, reason = "only its implementation of Versions is used")]
    enum SiteVersions {
        #[versions(storage)]
        V1(Site),
    }

    fn set() -> WebhookSet {
        WebhookSet::new("operator")
            .mutating(async |_: AdmissionRequest<Site>| Ok(Changed::nothing()))
            .validating(async |_: AdmissionRequest<Site>| Ok(Allowed::default()))
            .converting::<SiteVersions>()
    }

    #[test]
    fn the_configurations_have_the_paths_of_the_server() {
        let set = set();
        let manifests = set.manifests([Site::crd()], "ns", "hooks").unwrap();
        let paths = [
            "/0/spec/conversion/webhook/clientConfig",
            "/1/webhooks/0/clientConfig",
            "/2/webhooks/0/clientConfig",
        ];
        let found = paths.map(|path| json!(manifests).pointer(path).unwrap()["service"].clone());
        let service = |path: &str| json!({"namespace": "ns", "name": "hooks", "path": path});
        assert_eq!(
            found,
            [
                service("/convert-example-com-site"),
                service("/mutate-example-com-v1-site"),
                service("/validate-example-com-v1-site"),
            ]
        );
        assert_eq!(manifests[2]["webhooks"][0]["name"], "validate.sites.example.com");
        let crd = InjectionTarget::Conversion("sites.example.com".to_owned());
        let name = || "operator".to_owned();
        let expected =
            [InjectionTarget::Mutating(name()), InjectionTarget::Validating(name()), crd];
        assert_eq!(set.targets(), expected);
    }

    #[test]
    fn an_empty_set_has_the_crds_only() {
        let manifests = WebhookSet::new("operator").manifests([Site::crd()], "ns", "hooks");
        let manifests = manifests.unwrap();
        assert_eq!(manifests.len(), 1);
        assert_eq!(manifests[0]["spec"].get("conversion"), None);
    }
}
