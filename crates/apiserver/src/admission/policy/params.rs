//! The parameters of a policy: objects of the kind that the policy names, selected by its binding.

use std::sync::Arc;

use super::policy_spec::text;
use crate::cache::watch_cache::Entry;
use crate::storage::Storage;
use crate::storage::catalog::{Catalog, ServedResource};
use crate::storage::conversion;
use machinery::selector::LabelSelector;
use machinery::{Object, Value};

/// The `paramKind` of a policy.
pub(super) struct ParamKind {
    group: String,
    version: String,
    kind: String,
}

/// The served resource and version of a `paramKind`.
#[derive(Clone, Copy)]
pub(super) struct ParamResource<'c> {
    pub served: &'c Arc<ServedResource>,
    pub version: usize,
}

/// The `paramRef` of a binding.
pub(super) struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<Result<LabelSelector, String>>,
    /// Whether a request is denied if no parameter is found.
    required: bool,
}

impl ParamKind {
    /// Parses a `paramKind`; None if the policy has no parameters.
    pub(super) fn of(kind: &Value) -> Option<Self> {
        kind.as_object()?;
        let api_version = text(kind, "apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: text(kind, "kind").to_owned(),
        })
    }

    /// Finds the resource in the catalog.
    pub(super) fn find<'c>(&self, catalog: &'c Catalog) -> Result<ParamResource<'c>, String> {
        let found = catalog.served().iter().filter(|it| it.resource.kind == self.kind);
        let found = found.filter_map(|served| {
            let resource = &served.resource;
            let version = resource.versions.iter().position(|it| {
                it.served && it.name == self.version && resource.group_of(it) == self.group
            })?;
            Some(ParamResource { served, version })
        });
        found.into_iter().next().ok_or_else(|| {
            let Self { group, version, kind } = self;
            format!(
                "failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"
            )
        })
    }
}

impl ParamRef {
    /// Parses a `paramRef`.
    pub(super) fn of(reference: &Value) -> Self {
        Self {
            name: text(reference, "name").to_owned(),
            namespace: text(reference, "namespace").to_owned(),
            selector: reference.get("selector").map(LabelSelector::from_value),
            required: text(reference, "parameterNotFoundAction") == "Deny",
        }
    }

    /// The parameters for a request in `namespace`, in the version that the policy names.
    pub(super) async fn collect(
        &self,
        storage: &Storage,
        resource: &ParamResource<'_>,
        namespace: &str,
    ) -> Result<Vec<Object>, String> {
        let served = resource.served;
        let namespace = match (served.resource.namespaced, self.namespace.as_str()) {
            (false, "") => "",
            (false, _) => {
                return Err(
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                        .to_owned(),
                );
            }
            (true, "") if namespace.is_empty() => {
                return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned());
            }
            (true, "") => namespace,
            (true, named) => named,
        };
        let (entries, selector) = match &self.selector {
            _ if !self.name.is_empty() => {
                let named = served.cache.get(&served.key(namespace, &self.name));
                (named.into_iter().collect(), None)
            }
            None => return Err("one of name or selector must be provided".to_owned()),
            Some(selector) => {
                let selector = selector.as_ref().map_err(Clone::clone)?;
                let (snapshot, prefix) = (served.cache.snapshot(), served.key(namespace, ""));
                let all = snapshot.under(&prefix, None).map(Arc::clone);
                (all.collect::<Vec<_>>(), Some(selector))
            }
        };
        let converted = conversion::entries(storage, served, resource.version, entries).await;
        let mut entries = converted.map_err(|status| status.message)?;
        if let Some(selector) = selector {
            entries.retain(|it| selector.matches(|key| it.label(key)));
        }
        if entries.is_empty() && self.required {
            return Err(
                "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned()
            );
        }
        let object = |entry: &Arc<Entry>| {
            conversion::convert_locally(served, resource.version, entry.object())
        };
        Ok(entries.iter().map(object).collect())
    }
}
