//! Macros that make a CRD, its schema and its clients from one annotated Rust type, in addition to
//! kube-derive. `sampan-runtime` re-exports them, with the items that the expansions use.
//!
//! | annotation | on | gives |
//! |---|---|---|
//! | [`macro@resource`] | the spec of a kind | kube's `CustomResource`, with the paths of the crates that its expansion uses, and [`macro@schema`] |
//! | [`macro@schema`] | a status or any part of a spec | serialization, schema, CEL rules, list and map types |
//! | [`macro@Versions`] | an enum of one kind's versions | one CRD with all versions, and their conversion |
//!
//! The typed client is kube's `Api`; the typed informer and lister need no macro (`InformerExt` in
//! `sampan-runtime` is implemented for every kind).

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

mod schema_patch;
mod markers;
mod object_options;
mod arguments;
mod resource;
mod versions;

/// Makes a struct the spec of a custom resource.
///
/// The arguments are those of kube's `#[kube(…)]` (`group`, `version`, `kind`, `namespaced`,
/// `status`, `scale(…)`, `printcolumn(…)`, `shortname`, `category`, `selectable`, `deprecated`,
/// `served`, …) and those of [`macro@schema`], which this implies. The documentation of the struct
/// becomes the description of the kind, unless `doc = "…"` says otherwise.
///
/// A `rule(…)` here applies to the spec. A rule for the whole object, with `self.metadata.name` and
/// `self.status`, is `object_rule(…)`.
///
/// | argument | gives |
/// |---|---|
/// | `object_rule(…)` | a rule for the whole object |
/// | `object_patch("keyword" = json, …)` | keywords of the schema of the whole object, as `patch(…)` of [`macro@schema`] |
/// | `optional_spec` | an object need not have a spec: the field `spec` dereferences to an `Option` |
/// | `status_subresource = false` | the status is written with the rest of the object; `true` adds the subresource to a kind without a status |
///
/// ```
/// use runtime::{crd, kube_core::CustomResourceExt, resource, schema};
///
/// /// A site with a number of pods.
/// #[resource(group = "example.com", version = "v1", kind = "Site", namespaced,
///     status = "SiteStatus",
///     scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
///     rule("self.replicas <= self.limit", message = "more replicas than the limit"),
///     object_rule("self.metadata.name.size() <= 40", message = "no room for the suffix of pods"))]
/// #[derive(PartialEq, Default)]
/// #[serde(default)]
/// pub struct SiteSpec {
///     /// The number of pods.
///     pub replicas: i32,
///     pub limit: i32,
/// }
///
/// #[schema]
/// pub struct SiteStatus {
///     pub replicas: i32,
/// }
///
/// let site_crd = Site::crd();
/// assert_eq!(site_crd.metadata.name.as_deref(), Some("sites.example.com"));
/// crd::validate(&site_crd)?; // as an API server validates it
/// # Ok::<(), crd::InvalidCrd>(())
/// ```
#[proc_macro_attribute]
pub fn resource(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    tokens_or_compile_error(resource::resource(arguments.into(), item))
}

/// Makes a type a part of a custom resource, with serialization and schema.
///
/// Derives `Clone`, `Debug`, serde's traits and schemars' `JsonSchema`, each unless it is derived
/// already. The fields of a struct are in camel case in JSON unless serde's attributes say
/// otherwise. All attributes of serde and schemars apply: descriptions are doc comments, defaults
/// are `#[serde(default)]`, on the struct (then from its `Default`) or on a field, limits are
/// attributes such as `#[schemars(range(min = 1))]`.
///
/// The extensions of Kubernetes are the arguments, and on a field `#[schema(…)]`:
///
/// | argument | gives |
/// |---|---|
/// | `rule("self >= 0", message = "…")` | a CEL rule; also `message_expression`, `reason`, `field_path`, `optional_old_self` |
/// | `list_type = "set"` | `x-kubernetes-list-type`: `atomic`, `set` or `map` |
/// | `list_map_keys("name", …)` | `x-kubernetes-list-map-keys`, and the list type `map` |
/// | `map_type = "atomic"` | `x-kubernetes-map-type`: `atomic` or `granular` |
/// | `preserve_unknown_fields` | `x-kubernetes-preserve-unknown-fields`: unknown fields are not pruned |
/// | `embedded_resource` | `x-kubernetes-embedded-resource`: an object with `apiVersion`, `kind` and `metadata` |
/// | `int_or_string` | `x-kubernetes-int-or-string`: an integer or a string |
/// | `patch("keyword" = json, …)` | any keyword, in place of that of the type; `null` removes it |
/// | `nullable = false` | optional fields do not accept null, and are left out instead; on the type only |
/// | `crate_path = ::path` | the path of `sampan-runtime`, by default `::runtime`; on the type only |
///
/// A patch is the last word about a schema. Those in `items`, `additionalProperties` and `properties`
/// are merged with what is there; other values are replaced. The value of `default` may be null.
///
/// ```
/// use runtime::{kube_core::CustomResourceExt, resource, schema};
///
/// #[resource(group = "example.com", version = "v1", kind = "Gate", nullable = false)]
/// struct GateSpec {
///     #[schema(patch("default" = 2, "not" = {"enum": [13]}))]
///     lanes: Option<i32>,
///     #[schema(list_map_keys("name"))]
///     ports: Vec<Port>,
/// }
///
/// /// A port.
/// #[schema(rule("self.port != 22 || self.name == 'ssh'"))]
/// struct Port {
///     name: String,
///     #[schema(rule("self > 0", message = "must be a valid port"))]
///     port: u16,
/// }
///
/// let crd = serde_json::to_value(Gate::crd())?;
/// let ports = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/ports";
/// assert_eq!(crd.pointer(ports).unwrap()["x-kubernetes-list-type"], "map");
/// let lanes = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/lanes";
/// assert_eq!(crd.pointer(lanes).unwrap()["default"], 2);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[proc_macro_attribute]
pub fn schema(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    tokens_or_compile_error(resource::schema(arguments.into(), item))
}

/// Makes one CRD and the conversions from an enum of the versions of one kind.
///
/// Each variant contains one version. `#[versions(storage)]` marks the stored version, through
/// which the others are converted. For each other version `T`, `Stored: TryFrom<T>` and
/// `T: TryFrom<Stored>` are required (`From` implies both).
///
/// ```
/// use runtime::{Versions, versions::Versions as _};
///
/// mod v1 {
///     #[runtime::resource(group = "example.com", version = "v1", kind = "Site")]
///     pub struct SiteSpec { pub size: u32 }
/// }
/// mod v2 {
///     #[runtime::resource(group = "example.com", version = "v2", kind = "Site")]
///     pub struct SiteSpec { pub pages: u32 }
/// }
/// impl From<v1::Site> for v2::Site {
///     fn from(site: v1::Site) -> Self {
///         Self { metadata: site.metadata, spec: v2::SiteSpec { pages: site.spec.size } }
///     }
/// }
/// impl From<v2::Site> for v1::Site {
///     fn from(site: v2::Site) -> Self {
///         Self { metadata: site.metadata, spec: v1::SiteSpec { size: site.spec.pages } }
///     }
/// }
///
/// #[derive(Versions)]
/// enum Site {
///     V1(v1::Site),
///     #[versions(storage)]
///     V2(v2::Site),
/// }
///
/// assert_eq!(Site::crd()?.spec.versions.len(), 2);
/// # Ok::<(), runtime::versions::MergeError>(())
/// ```
#[proc_macro_derive(Versions, attributes(versions))]
pub fn versions(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    tokens_or_compile_error(versions::versions(&item))
}

fn tokens_or_compile_error(expanded: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expanded.unwrap_or_else(syn::Error::into_compile_error).into()
}
