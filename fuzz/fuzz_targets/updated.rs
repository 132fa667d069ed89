//! Updates of built-in kinds that replace the entries of a long list. The functions of the kind are
//! called without a server, so that the objects need not be valid.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::{Corpus, fuzz_target};
use fuzz::objects;

use machinery::{ErrorList, Object};
use types::Resource;
use types::resource::{Action, Columns, Now};

static KINDS: LazyLock<Vec<Resource>> = LazyLock::new(kinds::table::builtin);

fuzz_target!(|bytes: &[u8]| -> Corpus { fuzz::bounded(bytes, run) });

fn run(bytes: &[u8]) -> Corpus {
    let Ok((resource, old, new)) = objects::updated(&mut Unstructured::new(bytes), &KINDS) else {
        return Corpus::Reject;
    };
    let (Some(mut old), Some(mut new)) = (Object::from_value(old), Object::from_value(new)) else {
        return Corpus::Reject;
    };
    let strategy = resource.strategy;
    (strategy.defaults)(&mut old);
    (strategy.prepare_create)(&mut old);
    (strategy.defaults)(&mut new);
    validate(resource, &new, &old);
    (strategy.warnings)(&new);
    if let Some(warnings) = strategy.update_warnings {
        warnings(&new, &old);
    }
    for version in &resource.versions {
        if let Columns::Fixed(_, cells) = &version.columns {
            cells(&new, &Now { unix_seconds: 0 });
        }
    }
    Corpus::Keep
}

/// Prepares and validates an update of the object, of its status and of its subresources.
fn validate(resource: &Resource, new: &Object, old: &Object) {
    let strategy = resource.strategy;
    let mut changed = new.clone();
    (strategy.prepare_update)(&mut changed, old);
    match strategy.validate_in {
        Some(validate) => validate(&changed, Some(old), "v1", &mut ErrorList::new()),
        None => (strategy.validate_update)(&changed, old, &mut ErrorList::new()),
    }
    let mut changed = new.clone();
    (strategy.prepare_status)(&mut changed, old);
    (strategy.validate_status)(&changed, old, &mut ErrorList::new());
    for subresource in strategy.subresources {
        let Action::Replace { prepare, validate, .. } = &subresource.action else { continue };
        let mut changed = new.clone();
        prepare(&mut changed, old);
        validate(&changed, old, &mut ErrorList::new());
    }
}
