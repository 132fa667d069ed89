//! `volumeattributesclass-protection-controller`: a deleted `VolumeAttributesClass` keeps its finalizer
//! `kubernetes.io/vac-protection` until no claim and no volume names it.
//!
//! Reads classes, claims and volumes. Writes the finalizers of classes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use serde::Deserialize;

use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::metadata::Metadata;
use crate::protection_finalizer::protect;
use machinery::PolicyRule;
use runtime::informer::{Indexer, Item};
use runtime::{Action, Client, Controller, Failure, Lister, Mapper, Request};

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "volumeattributesclass-protection-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("volumeattributesclass-protection-controller"),
    rules: &[PolicyRule::new(&["storage.k8s.io"], &["volumeattributesclasses"], &["patch"])],
    start,
};

const FINALIZER: &str = "kubernetes.io/vac-protection";

/// The index of claims and volumes by the classes that they name.
const ATTRIBUTES_INDEX: &str = "attributes-class";

struct Protection {
    client: Client,
    classes: Lister<Protected>,
    claims: Arc<Indexer>,
    volumes: Arc<Indexer>,
}

#[derive(Deserialize)]
struct Protected {
    metadata: Metadata,
}

fn start(cx: &ControllerContext) {
    let claims = cx.manager.informer::<PersistentVolumeClaim>();
    let volumes = cx.manager.informer::<PersistentVolume>();
    for informer in [&claims, &volumes] {
        informer.indexer().add_index(ATTRIBUTES_INDEX, class_names);
    }
    let protection = Protection {
        client: cx.client.clone(),
        classes: cx.manager.informer::<VolumeAttributesClass>().lister(),
        claims: Arc::clone(claims.indexer()),
        volumes: Arc::clone(volumes.indexer()),
    };
    let classes_of = || {
        Mapper::custom(|item| class_names(item).iter().map(|name| Request::new("", name)).collect())
    };
    let controller = Controller::for_::<VolumeAttributesClass>()
        .named(cx.name)
        .watches::<PersistentVolumeClaim>(classes_of())
        .watches::<PersistentVolume>(classes_of())
        .workers(1)
        .reconcile(reconcile, protection);
    cx.manager.add(controller);
}

/// The classes that a claim or a volume names. Few name any, which is seen without decoding.
fn class_names(item: &Item) -> Vec<String> {
    const PATHS: [&[&str]; 3] = [
        &["spec", "volumeAttributesClassName"],
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ];
    let json = item.json();
    // The names of all three fields end so.
    let names_any = |json: &str| json.contains("olumeAttributesClassName\"");
    if !std::str::from_utf8(&json).is_ok_and(names_any) {
        return Vec::new();
    }
    let object = item.object().unwrap_or_default();
    let mut names: Vec<String> = PATHS.iter().map(|path| object.str_at(path).to_owned()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| !name.is_empty());
    names
}

async fn reconcile(request: Request, cx: Arc<Protection>) -> Result<Action, Failure> {
    let Some(class) = cx.classes.get_key(&request)? else { return Ok(Action::Done) };
    let is_used = async {
        Ok([&cx.claims, &cx.volumes].into_iter().any(|indexer| {
            let found = indexer.by_index(ATTRIBUTES_INDEX, request.name());
            found.is_ok_and(|found| !found.is_empty())
        }))
    };
    let path = format!("/apis/storage.k8s.io/v1/volumeattributesclasses/{}", request.name());
    protect(&cx.client, &path, &class.metadata, FINALIZER, is_used).await?;
    Ok(Action::Done)
}
