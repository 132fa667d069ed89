//! [`Identity`]: the user of the requests of a component in the same process as the API server, and
//! [`Connect`], which connects a user to the server.
//!
//! ```
//! use runtime::{ApiService, Connect, Identity};
//!
//! fn scheduler(connect: &Connect) -> ApiService {
//!     connect(&Identity::user("system:kube-scheduler", "kube-scheduler"))
//! }
//! let collector = Identity::service_account("garbage-collector", "kube-controller-manager");
//! assert_eq!(collector.user, "system:serviceaccount:kube-system:garbage-collector");
//! ```

use std::sync::Arc;

use crate::ApiService;

/// Returns the API server for the requests of a user.
pub type Connect = Arc<dyn Fn(&Identity) -> ApiService + Send + Sync>;

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name of the user.
    pub user: String,
    /// The groups of the user, besides `system:authenticated`.
    pub groups: Vec<String>,
    /// The program in the user agent of its requests, which is the field manager of its writes:
    /// `kube-scheduler`.
    pub program: &'static str,
}

impl Identity {
    /// A user without further groups.
    pub fn user(name: &str, program: &'static str) -> Self {
        Self { user: name.to_owned(), groups: Vec::new(), program }
    }

    /// A service account of `kube-system`.
    pub fn service_account(name: &str, program: &'static str) -> Self {
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
        Self {
            user: format!("system:serviceaccount:kube-system:{name}"),
            groups: groups.map(str::to_owned).to_vec(),
            program,
        }
    }
}
