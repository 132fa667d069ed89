//! [`Conventions`]: how a kind is served, where Kubernetes' two sorts of servers differ.
//!
//! Upstream serves a built-in kind by routes that are installed at startup and by Go structs, a
//! custom one by a single handler that parses paths and by untyped maps. The differences are
//! visible to clients. Each difference is one field here. The code that serves requests reads these
//! fields, and not the origin of a kind.
//!
//! ```
//! use types::resource::Conventions;
//!
//! assert!(Conventions::CUSTOM.serves_head && !Conventions::BUILT_IN.serves_head);
//! ```

/// See the [module documentation](self).
#[derive(Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact about the kind, not a state")]
pub struct Conventions {
    /// The kind comes and goes with a CRD while the server runs. A request waits until the catalog
    /// has caught up with the stored CRDs.
    pub dynamic: bool,

    // Paths and methods.
    /// A path that does not exist is answered with plain text instead of a Status.
    pub plain_not_found: bool,
    /// Each subresource is a route: one that the kind does not have is a path that does not exist.
    pub routes_subresources: bool,
    /// HEAD is answered as GET is.
    pub serves_head: bool,
    /// A write to a namespaced kind without a namespace in the path is a path that does not exist,
    /// instead of a method that is not allowed.
    pub hides_writes_to_all_namespaces: bool,
    /// The name in the path is checked before the verb: a creation must not have one, and an update
    /// must.
    pub routes_names: bool,
    /// The answer to a method that is not allowed names the verb and the resource.
    pub names_refused_verb: bool,
    /// The document of a group version is served for GET only.
    pub restricts_discovery_methods: bool,
    /// The router checks the `Accept` header before the handler does, and objects are available
    /// as protobuf.
    pub negotiated_by_router: bool,

    // Bodies.
    /// A body must have `apiVersion` and `kind`.
    pub requires_type_meta: bool,
    /// Lists have no Go type: their fields are sorted, `continue` is always written, and each item
    /// has `apiVersion` and `kind`.
    pub unstructured_lists: bool,
    /// A strategic merge patch is accepted.
    pub supports_strategic_merge: bool,
    /// Fields that the schema does not have are pruned from the result of a mutating policy,
    /// instead of being an error.
    pub prunes_policy_results: bool,

    // Writes.
    /// Verbs work on objects in the version of the request, instead of the storage version.
    pub works_in_request_version: bool,
    /// In a version with `/status`, creations drop the status, and updates of the object keep the
    /// stored one.
    pub isolates_status: bool,
    /// An update of `/status` resets metadata.
    pub status_resets_metadata: bool,
    /// In a version without `/status`, a change of the status counts for `metadata.generation`.
    pub generation_counts_status: bool,
    /// Field managers own the same field whether they write `1` or `1.0`.
    pub collapses_floats: bool,

    // Validation of metadata.
    /// Finalizers must be qualified names or ones that Kubernetes knows.
    pub restricts_finalizers: bool,
    /// An update checks the name by the rule for creations.
    pub validates_name_on_update: bool,
    /// The errors of an update are listed by each of the upstream functions that find them.
    pub repeats_update_errors: bool,

    // `/scale`.
    /// A negative number of replicas is refused by the subresource, not by the kind's schema.
    pub scale_checks_replicas: bool,
    /// The object may lack a number of replicas. It cannot be scaled then.
    pub scale_may_lack_replicas: bool,
    /// The label selector is stored as text.
    pub scale_selector_is_text: bool,
    /// A Scale is available as a Table.
    pub scale_has_table: bool,

    // Field selectors.
    /// `metadata.namespace` can be selected even if the kind is cluster-scoped and has selectable
    /// fields.
    pub selects_namespace: bool,
    /// A kind without selectable fields has the error of Kubernetes' default field labels.
    pub default_field_labels: bool,

    // Discovery and OpenAPI.
    /// What discovery lists as verbs, in its order.
    pub verbs: &'static [&'static str],
    /// Discovery sorts subresources by name.
    pub sorts_subresources: bool,
    /// Discovery has the hash of the storage version even if that version is not served.
    pub hashes_unserved_version: bool,
    /// Aggregated discovery repeats group and version for each resource.
    pub repeats_group_version: bool,
    /// OpenAPI is written as upstream's builder for CRDs writes it.
    pub crd_openapi: bool,
}

impl Conventions {
    /// Those of built-in kinds.
    pub const BUILT_IN: Self = Self {
        dynamic: false,
        plain_not_found: false,
        routes_subresources: true,
        serves_head: false,
        hides_writes_to_all_namespaces: false,
        routes_names: true,
        names_refused_verb: false,
        restricts_discovery_methods: true,
        negotiated_by_router: true,
        requires_type_meta: false,
        unstructured_lists: false,
        supports_strategic_merge: true,
        prunes_policy_results: false,
        works_in_request_version: false,
        isolates_status: false,
        status_resets_metadata: false,
        generation_counts_status: false,
        collapses_floats: false,
        restricts_finalizers: true,
        validates_name_on_update: true,
        repeats_update_errors: false,
        scale_checks_replicas: true,
        scale_may_lack_replicas: false,
        scale_selector_is_text: false,
        scale_has_table: true,
        selects_namespace: false,
        default_field_labels: true,
        verbs: &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        sorts_subresources: true,
        hashes_unserved_version: true,
        repeats_group_version: false,
        crd_openapi: false,
    };

    /// Those of CRDs and API services, which upstream serves by two servers of their own. These do
    /// not restrict finalizers.
    pub const EXTENSION: Self = Self { restricts_finalizers: false, ..Self::BUILT_IN };

    /// Those of custom resources.
    pub const CUSTOM: Self = Self {
        dynamic: true,
        plain_not_found: true,
        routes_subresources: false,
        serves_head: true,
        hides_writes_to_all_namespaces: true,
        routes_names: false,
        names_refused_verb: true,
        restricts_discovery_methods: false,
        negotiated_by_router: false,
        requires_type_meta: true,
        unstructured_lists: true,
        supports_strategic_merge: false,
        prunes_policy_results: true,
        works_in_request_version: true,
        isolates_status: true,
        status_resets_metadata: true,
        generation_counts_status: true,
        collapses_floats: true,
        restricts_finalizers: false,
        validates_name_on_update: false,
        repeats_update_errors: true,
        scale_checks_replicas: false,
        scale_may_lack_replicas: true,
        scale_selector_is_text: true,
        scale_has_table: false,
        selects_namespace: true,
        default_field_labels: false,
        verbs: &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
        sorts_subresources: false,
        hashes_unserved_version: false,
        repeats_group_version: true,
        crd_openapi: true,
    };
}
