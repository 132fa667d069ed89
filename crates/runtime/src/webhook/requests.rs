//! Admission requests for tests, which call the function of a handler with an object.

use k8s_openapi::api::authentication::v1::UserInfo;
use kube_core::admission::{AdmissionRequest, Operation};
use kube_core::{GroupVersionKind, GroupVersionResource, Resource, TypeMeta};

/// A request to create an object, for a test of a handler's function.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube_core::admission::AdmissionRequest;
/// use runtime::webhook::{Allowed, Denied, admission};
///
/// async fn validate(request: AdmissionRequest<ConfigMap>) -> Result<Allowed, Denied> {
///     match request.object {
///         Some(map) if map.data.is_none() => Err(Denied::invalid("data", "must not be empty")),
///         _ => Ok(Allowed::default()),
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let denied = validate(admission::create_request(ConfigMap::default())).await.unwrap_err();
/// assert_eq!(denied.field.as_deref(), Some("data"));
/// assert!(validate(admission::delete_request(ConfigMap::default())).await.is_ok());
/// # });
/// ```
pub fn create_request<K: Resource<DynamicType = ()>>(object: K) -> AdmissionRequest<K> {
    request(Operation::Create, Some(object), None)
}

/// A request to change an object, for a test of a handler's function.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use runtime::webhook::admission;
///
/// let request = admission::update_request(ConfigMap::default(), ConfigMap::default());
/// assert!(request.old_object.is_some() && request.object.is_some());
/// ```
pub fn update_request<K: Resource<DynamicType = ()>>(old: K, object: K) -> AdmissionRequest<K> {
    request(Operation::Update, Some(object), Some(old))
}

/// A request to delete an object, for a test of a handler's function.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use runtime::webhook::admission;
///
/// let request = admission::delete_request(ConfigMap::default());
/// assert!(request.old_object.is_some() && request.object.is_none());
/// ```
pub fn delete_request<K: Resource<DynamicType = ()>>(object: K) -> AdmissionRequest<K> {
    request(Operation::Delete, None, Some(object))
}

/// The name and the namespace are those of the object.
fn request<K: Resource<DynamicType = ()>>(
    operation: Operation,
    object: Option<K>,
    old_object: Option<K>,
) -> AdmissionRequest<K> {
    let metadata = object.as_ref().or(old_object.as_ref()).map(Resource::meta);
    let (name, namespace) = metadata
        .map(|metadata| (metadata.name.clone(), metadata.namespace.clone()))
        .unwrap_or_default();
    let (group, version) = (K::group(&()), K::version(&()));
    let kind = GroupVersionKind::gvk(&group, &version, &K::kind(&()));
    let resource = GroupVersionResource::gvr(&group, &version, &K::plural(&()));
    AdmissionRequest {
        types: TypeMeta {
            api_version: "admission.k8s.io/v1".to_owned(),
            kind: "AdmissionReview".to_owned(),
        },
        uid: "00000000-0000-0000-0000-000000000000".to_owned(),
        request_kind: Some(kind.clone()),
        kind,
        request_resource: Some(resource.clone()),
        resource,
        sub_resource: None,
        request_sub_resource: None,
        name: name.unwrap_or_default(),
        namespace,
        operation,
        user_info: UserInfo::default(),
        object,
        old_object,
        dry_run: false,
        options: None,
    }
}
