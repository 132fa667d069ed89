//! The webhook server of an operator: admission, conversion, and its certificates. A [`WebhookSet`] has
//! the manifests as well.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::Pod;
//! use keel::{Clock, Entropy, Tasks};
//! use kube_core::admission::AdmissionRequest;
//! use runtime::webhook::{
//!     Certificates, CertificateOptions, Changed, ServerOptions, InjectionTarget, WebhookServer, admission,
//! };
//!
//! async fn label(request: AdmissionRequest<Pod>) -> Result<Changed<Pod>, admission::Denied> {
//!     let Some(mut pod) = request.object else {
//!         return Ok(Changed::nothing());
//!     };
//!     pod.metadata.labels.get_or_insert_default().insert("seen".into(), "yes".into());
//!     Ok(Changed::to(pod)) //                              the patch is computed
//! }
//!
//! # async fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let (clock, entropy, tasks) = (Clock::system(), Entropy::system(), Tasks::new());
//! let options = CertificateOptions::of_service("operators", "my-webhook");
//! let certificates = Certificates::start(client, options, &clock, &entropy, &tasks).await?;
//! certificates.inject(InjectionTarget::Mutating("my-operator".into()));
//! let server = WebhookServer::new(ServerOptions::default())
//!     .at("/label-pods", admission::mutating(label));
//! let address = server.start(&certificates.serving(), &clock, &tasks).await?;
//! # Ok(())
//! # }
//! ```

pub mod admission;
mod authority;
pub mod certificates;
pub mod conversion;
mod difference;
mod injection;
mod requests;
pub mod server;
mod server_probe;
pub mod serving;
pub mod webhook_set;

pub use admission::{Allowed, Changed, Denied};
pub use certificates::{CertificateError, CertificateOptions, Certificates};
pub use injection::InjectionTarget;
pub use server::{BadReview, Handler, ServerOptions, WebhookServer};
pub(crate) use server_probe::ServerProbe;
pub use serving::{ServingCertificate, ServingError};
pub use webhook_set::WebhookSet;
