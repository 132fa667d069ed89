//! The change of a stored object: read, transform, check, write if nobody was faster.

use super::{Outcome, initialization, spec_differs, stored_form, wipe_server_metadata};
use crate::admission::{self, Attempt, Charge, Claim};
use crate::context::Cx;
use crate::options::parse_revision;
use crate::request::Verb;
use crate::watch_cache::Entry;
use crate::{conversion, errors, ownership, validation};
use machinery::meta::initializers;
use machinery::{ErrorList, GroupKind, Object, Path, Status};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use store::{Error, Expect, Record};

/// Which part of an object an update may change.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// Everything but a status that is a subresource.
    Main,
    /// The status alone.
    Status,
    /// What a subresource with rules of its own leaves of the change.
    Own(fn(&mut Object, &Object), fn(&Object, &Object, &mut ErrorList)),
    /// What the server itself did with something that was posted; it does not count as a change of
    /// what the user wants.
    Posted,
}

/// What makes a new object out of the stored one; both are in the version that verbs work in.
pub(crate) trait Change: Send + Sync {
    /// What becomes of `old`. It is asked again when somebody else was faster.
    fn of<'a>(&'a self, old: &'a Object) -> Changing<'a>;
}

/// A change under way.
pub(crate) type Changing<'a> = Pin<Box<dyn Future<Output = Result<Object, Status>> + Send + 'a>>;

/// Most changes wait for nobody.
impl<F: Fn(&Object) -> Result<Object, Status> + Send + Sync> Change for F {
    fn of<'a>(&'a self, old: &'a Object) -> Changing<'a> {
        Box::pin(std::future::ready(self(old)))
    }
}

/// What is to be changed, and how.
pub(crate) struct UpdateRequest<'a> {
    /// Makes the new object out of the stored one.
    pub transform: &'a dyn Change,
    /// See the type.
    pub part: Part,
    /// Do everything but store.
    pub dry_run: bool,
    /// The transformation has seen to who owns what.
    pub ownership_settled: bool,
}

/// How often a write is tried against others before the client is told of the conflict.
const ATTEMPTS: usize = 64;

/// Changes the object that the request names.
pub(crate) async fn update(cx: &Cx, request: UpdateRequest<'_>) -> Result<Outcome, Status> {
    let key = cx.key();
    let name = &cx.target.name;
    let of_store = |error: Error| errors::of_store(&cx.what(), name, &error);
    cx.plane.cache.catch_up().await.map_err(of_store)?;
    let mut current = cx.served.cache.get(&key);
    for _ in 0..ATTEMPTS {
        let Some(entry) = current else { return Err(cx.not_found()) };
        let (new, claim, charge) = renew(cx, &entry, &request).await?;
        if may_go(cx, &new) {
            let _write = cx.writes.begin();
            match finish(cx, new, &entry, request.dry_run).await {
                Err(Error::Conflict { found, .. }) => {
                    current = found.map(|it| entry_of(cx, &it));
                    continue;
                }
                finished => return finished.map_err(of_store),
            }
        }
        let has_failed = initializers::failure(&new).is_some();
        let new = conversion::to_storage(cx, new).await?;
        let bytes = stored_form(cx, &new)?;
        if entry.holds(&bytes) {
            return Ok(Outcome::Stored(entry));
        }
        if request.dry_run {
            let mut new = new;
            new.set_meta("resourceVersion", entry.revision.to_string());
            return Ok(Outcome::Shown(new));
        }
        let ttl = match cx.resource().ttl_seconds {
            _ if has_failed => Some(initialization::FAILURE_STAYS),
            seconds => seconds.map(Duration::from_secs),
        };
        let _write = cx.writes.begin();
        match cx.plane.store.put(&key, bytes.into(), Expect::At(entry.revision), ttl).await {
            Ok(record) => {
                claim.settle(cx, record.modified).await;
                charge.settle(cx, record.modified).await;
                if has_failed {
                    initialization::remove_failed(cx, &record).await;
                }
                return Ok(Outcome::Stored(entry_of(cx, &record)));
            }
            // Again, with what is there now. A writer who insists on a resourceVersion will be told
            // of the conflict then.
            Err(Error::Conflict { found, .. }) => {
                current = found.map(|it| entry_of(cx, &it));
            }
            Err(error) => return Err(of_store(error)),
        }
    }
    Err(Status::modified(&cx.what(), name))
}

fn entry_of(cx: &Cx, record: &Record) -> Arc<Entry> {
    Arc::new(Entry::of(record, cx.resource().prefix.len()))
}

/// The new object, and what it has taken for that.
async fn renew(
    cx: &Cx,
    entry: &Arc<Entry>,
    request: &UpdateRequest<'_>,
) -> Result<(Object, Claim, Charge), Status> {
    let resource = cx.resource();
    let old = conversion::working(cx, entry).await?;
    let mut new = request.transform.of(&old).await?;
    check_preconditions(cx, &new, &old, request.dry_run)?;
    if !request.ownership_settled {
        ownership::track(cx, Some(&old), &mut new).await;
    }
    let attempt = Attempt::update(cx, &old, request.dry_run);
    admission::mutate(&attempt, &mut new).await?;
    prepare(cx, &mut new, &old, request.part);
    let claim = if request.dry_run {
        cx.plane.allocations.rehearse(cx, &mut new, Some(&old))
    } else {
        cx.plane.allocations.claim(cx, &mut new, Some(&old))
    };
    let mut errors = ErrorList::new();
    validation::changed_metadata(resource, &new, &old, &mut errors);
    validation::update(cx, &new, &old, request.part, &mut errors);
    if !errors.is_empty() {
        return Err(cx.invalid(old.name(), errors));
    }
    if matches!(request.part, Part::Main) {
        let warnings = match resource.behavior.update_warnings {
            Some(warnings) => warnings(&new, &old),
            None => (resource.behavior.warnings)(&new),
        };
        for warning in warnings {
            cx.warn(warning);
        }
    }
    let claim = claim?;
    let charge = admission::judge(&attempt, Some(&new)).await?;
    new.remove_meta("resourceVersion");
    Ok((new, claim, charge))
}

/// Fails if the writer insists on a resourceVersion or a uid that is not the current one.
fn check_preconditions(cx: &Cx, new: &Object, old: &Object, dry_run: bool) -> Result<(), Status> {
    check_uid(cx, new, Some(old), dry_run)?;
    let resource = cx.resource();
    let asked = new.resource_version();
    let revision = match asked {
        "" => 0,
        text => parse_revision(text).map_err(Status::unclassified)?,
    };
    if revision == 0 && !resource.behavior.unconditional_update {
        let mut errors = ErrorList::new();
        let path = Path::root("metadata");
        errors.invalid(&path.child("resourceVersion"), 0, "must be specified for an update");
        let kind = GroupKind::new(&resource.group, &resource.plural);
        return Err(Status::invalid(&kind, old.name(), &errors));
    }
    if revision != 0 && asked != old.resource_version() {
        return Err(Status::modified(&cx.what(), old.name()));
    }
    Ok(())
}

/// Fails if a whole object is sent with a uid that is not the one of the stored object, or if there
/// is no stored object. A patch that changes the uid fails later, as the uid cannot be changed.
pub(crate) fn check_uid(
    cx: &Cx,
    sent: &Object,
    stored: Option<&Object>,
    dry_run: bool,
) -> Result<(), Status> {
    let found = stored.map_or("", Object::uid);
    if cx.verb != Verb::Update || sent.uid().is_empty() || sent.uid() == found {
        return Ok(());
    }
    let key = cx.key();
    // Upstream: the key of a dry run has no prefix.
    let shown = if dry_run { key.trim_start_matches("/registry") } else { &key };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {shown}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {}, UID in object meta: {found}",
        sent.uid(),
    );
    Err(Status::conflict(&cx.what(), &cx.target.name, &why))
}

/// Takes from the old object what the client may not change or has left out.
fn prepare(cx: &Cx, new: &mut Object, old: &Object, part: Part) {
    wipe_server_metadata(new);
    super::dedup_owners(cx, new);
    for field in
        ["uid", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "namespace"]
    {
        if new.metadata().is_none_or(|it| !it.contains_key(field)) {
            keep(new, old, field);
        }
    }
    keep(new, old, "creationTimestamp");
    keep(new, old, "generation");
    initializers::remove_if_done(new);
    let resource = cx.resource();
    let status_apart = cx.version().status;
    match part {
        Part::Main => {
            if resource.conventions.isolates_status && status_apart {
                match old.map().get("status") {
                    Some(status) => new.map_mut().insert("status".to_owned(), status.clone()),
                    None => new.map_mut().remove("status"),
                };
            }
            (resource.behavior.prepare_update)(new, old);
        }
        Part::Status => (resource.behavior.prepare_status)(new, old),
        Part::Own(prepare, _) => prepare(new, old),
        Part::Posted => {}
    }
    let counts = resource.behavior.generation && !matches!(part, Part::Posted);
    if counts
        && spec_differs(new, old, status_apart || !resource.conventions.generation_counts_status)
    {
        new.set_meta("generation", old.generation() + 1);
    }
}

fn keep(new: &mut Object, old: &Object, field: &str) {
    match old.metadata().and_then(|it| it.get(field)) {
        Some(value) => new.set_meta(field, value.clone()),
        None => {
            new.remove_meta(field);
        }
    }
}

/// Whether nothing holds back any longer an object whose deletion has begun.
fn may_go(cx: &Cx, object: &Object) -> bool {
    let held = cx.resource().behavior.deletion.is_some_and(|it| (it.held)(object));
    let grace = object.metadata().and_then(|it| it.get("deletionGracePeriodSeconds"));
    object.deletion_timestamp().is_some()
        && object.finalizers().next().is_none()
        && grace.is_none_or(|it| it.as_i64() == Some(0))
        && !held
}

/// Removes an object whose last finalizer this update took away.
async fn finish(cx: &Cx, mut new: Object, entry: &Entry, dry_run: bool) -> Result<Outcome, Error> {
    if !dry_run {
        cx.plane.store.delete(&entry.key, Expect::At(entry.revision)).await?;
    }
    new.set_meta("resourceVersion", entry.revision.to_string());
    Ok(Outcome::Shown(new))
}
