//! [`Identity`]: the user of the requests of a component in the same process as the API server, and
//! [`Connect`], which connects a user to the server.
//!
//! ```
//! use runtime::{ApiService, Connect, Identity};
//!
//! fn scheduler(connect: &Connect) -> ApiService {
//!     connect(&Identity { user: "system:kube-scheduler".to_owned(), groups: Vec::new() })
//! }
//! let collector = Identity::service_account("garbage-collector");
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
}

impl Identity {
    /// A service account of `kube-system`.
    pub fn service_account(name: &str) -> Self {
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
        Self {
            user: format!("system:serviceaccount:kube-system:{name}"),
            groups: groups.map(str::to_owned).to_vec(),
        }
    }
}
