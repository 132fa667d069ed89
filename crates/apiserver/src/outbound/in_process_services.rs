//! [`InProcessServices`]: services that are functions of this process. An `APIService` that names one
//! is served by that function, with no connection.
//!
//! The user of a request is in its `x-remote-user` and `x-remote-group` headers, as for every
//! aggregated server; the request is already authorized.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};

/// Answers a request.
pub type ServiceFunction = Arc<
    dyn Fn(Request<Bytes>) -> Pin<Box<dyn Future<Output = Response<Bytes>> + Send>> + Send + Sync,
>;

/// See the [module documentation](self).
///
/// ```
/// use apiserver::outbound::in_process_services::InProcessServices;
/// use std::sync::Arc;
///
/// let mut services = InProcessServices::default();
/// services.add("kube-system", "tides", Arc::new(|_request| Box::pin(async { Default::default() })));
/// assert!(services.find("kube-system", "tides").is_some());
/// ```
#[derive(Clone, Default)]
pub struct InProcessServices(BTreeMap<(String, String), ServiceFunction>);

impl InProcessServices {
    /// Adds a service. It needs no `Service` object, and is found before one with the same name.
    pub fn add(&mut self, namespace: &str, name: &str, service: ServiceFunction) {
        self.0.insert((namespace.to_owned(), name.to_owned()), service);
    }

    /// The function of a service.
    pub fn find(&self, namespace: &str, name: &str) -> Option<&ServiceFunction> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(namespace.to_owned(), name.to_owned()))
    }
}

impl fmt::Debug for InProcessServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
