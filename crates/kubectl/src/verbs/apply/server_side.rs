//! Server-side apply: one request, and the server merges.

use super::{ApplyArgs, LAST_APPLIED, manifest, with_annotation};
use crate::error::Error;
use crate::mutation::patch;
use crate::session::Session;
use crate::targets::Target;
use machinery::fields::{list, text};
use machinery::patch::apply::Set;
use machinery::{Map, Value, json};

/// The media type of server-side apply.
const APPLY: &str = "application/apply-patch+yaml";

/// The manager of fields that `apply` has set without `--server-side`.
const CLIENT_SIDE: &str = "kubectl-client-side-apply";

/// The manager of fields that `apply --server-side` sets.
const SERVER_SIDE: &str = "kubectl";

/// The manager of the annotation that `apply` without `--server-side` needs.
const ANNOTATION_MANAGER: &str = "kubectl-last-applied";

/// Applies the manifest of a target.
pub(super) async fn apply(
    session: &Session,
    args: &ApplyArgs,
    target: &Target,
) -> Result<Value, Error> {
    if target.name.is_none() {
        return Err(Error::message("metadata.name must be set for --server-side"));
    }
    let query = args.query(SERVER_SIDE);
    let is_default = query.iter().any(|it| *it == ("fieldManager", SERVER_SIDE.to_owned()));
    if is_default && !query.iter().any(|it| it.0 == "dryRun") {
        take_over(session, target).await?;
    }
    let applied = send(session, args, target, query).await?;
    let is_stored = !args.query("").iter().any(|it| it.0 == "dryRun");
    if is_stored && applied["metadata"]["annotations"][LAST_APPLIED].is_string() {
        return keep_annotation(session, target).await;
    }
    Ok(applied)
}

/// Brings the annotation of an object that has it up to date, so that it can be applied without
/// `--server-side` again.
async fn keep_annotation(session: &Session, target: &Target) -> Result<Value, Error> {
    let manifest = manifest(target);
    let annotated = with_annotation(manifest);
    let metadata = &manifest["metadata"];
    let mut change = json!({
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "metadata": {"name": metadata["name"], "annotations":
            {LAST_APPLIED: annotated["metadata"]["annotations"][LAST_APPLIED]}},
    });
    if !metadata["namespace"].is_null() {
        change["metadata"]["namespace"] = metadata["namespace"].clone();
    }
    let query = [("fieldManager", ANNOTATION_MANAGER.to_owned()), ("force", "true".to_owned())];
    patch(session, &target.path(), APPLY, &query, &change).await
}

async fn send(
    session: &Session,
    args: &ApplyArgs,
    target: &Target,
    mut query: Vec<(&'static str, String)>,
) -> Result<Value, Error> {
    let mut object = manifest(target).clone();
    // The server owns the list of managers.
    if let Some(metadata) = object["metadata"].as_object_mut() {
        let _: Option<Value> = Map::remove(metadata, "managedFields");
    }
    query.push(("force", args.force_conflicts.to_string()));
    let applied = patch(session, &target.path(), APPLY, &query, &object).await;
    applied.map_err(|error| if error.has_code(409) { with_advice(&error) } else { error })
}

/// Makes the fields that were applied without `--server-side` those of the server-side manager. They
/// would conflict otherwise, or stay for ever when the manifest loses them.
async fn take_over(session: &Session, target: &Target) -> Result<(), Error> {
    let current = match session.get(&target.path()).await {
        Err(error) if error.has_code(404) => return Ok(()),
        current => current?,
    };
    let entries = list(&current["metadata"], "managedFields");
    let is_of = |entry: &&Value, manager: &str, operation: &str| {
        text(entry, "manager") == manager
            && text(entry, "operation") == operation
            && text(entry, "subresource").is_empty()
    };
    let Some(old) = entries.iter().find(|it| is_of(it, CLIENT_SIDE, "Update")) else {
        return Ok(());
    };
    let mut entry = old.clone();
    entry["manager"] = SERVER_SIDE.into();
    entry["operation"] = "Apply".into();
    let mut fields = Set::new();
    for it in entries {
        if is_of(&it, CLIENT_SIDE, "Update") || is_of(&it, SERVER_SIDE, "Apply") {
            let parsed = Set::parse(&it["fieldsV1"]);
            let parsed =
                parsed.map_err(|_| Error::message("metadata.managedFields is not valid"))?;
            fields = fields.union(parsed);
        }
    }
    entry["fieldsV1"] = fields.to_value();
    // The annotation stays when the manager applies a manifest without it.
    let annotation = format!("f:{LAST_APPLIED}");
    let annotations = entry["fieldsV1"]["f:metadata"]["f:annotations"].as_object_mut();
    let is_annotated = annotations.is_some_and(|it| it.remove(&annotation).is_some());
    let annotation_entry = is_annotated.then(|| {
        let fields = json!({"f:metadata": {"f:annotations": {annotation: {}}}});
        let mut entry = entry.clone();
        entry["manager"] = ANNOTATION_MANAGER.into();
        entry["fieldsV1"] = fields;
        entry
    });
    let others = entries
        .iter()
        .filter(|it| !is_of(it, CLIENT_SIDE, "Update") && !is_of(it, SERVER_SIDE, "Apply"));
    let managers: Vec<Value> = others.cloned().chain([entry]).chain(annotation_entry).collect();
    let change = json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": managers},
        {"op": "replace", "path": "/metadata/resourceVersion",
            "value": current["metadata"]["resourceVersion"]},
    ]);
    patch(session, &target.path(), "application/json-patch+json", &[], &change).await?;
    Ok(())
}

/// Says what can be done about a conflict.
fn with_advice(error: &Error) -> Error {
    Error::message(format!(
        "{error}\nOther managers have set the fields above. Either take them over with \
         --force-conflicts, or remove them from the manifest, or give them the values that they have, \
         which makes you a manager as well."
    ))
}
