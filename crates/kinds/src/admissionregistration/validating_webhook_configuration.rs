//! `ValidatingWebhookConfiguration`: webhooks that validate objects before they are stored.
//!
//! The server stores and shows these objects; the calls are made by `apiserver`.

use super::webhook::{cells, defaults, validate, warnings};
use crate::table;
use types::columns::{AGE, NAME, integer};
use types::resource::{Behavior, Column, Columns, Resource};

/// The row of `ValidatingWebhookConfiguration`.
pub fn resource() -> Resource {
    let shape = "admissionregistration/v1.ValidatingWebhookConfiguration";
    super::row(
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        &BEHAVIOR,
        table::v1(shape, Columns::Fixed(COLUMNS, cells)),
    )
}

static BEHAVIOR: Behavior = Behavior {
    defaults,
    validate: |object, errors| {
        validate(object, None, errors);
        super::refuse_reserved_name(object, errors);
    },
    validate_update: |new, old, errors| validate(new, Some(old), errors),
    generation: true,
    unconditional_update: false,
    warnings,
    ..Behavior::PLAIN
};

const COLUMNS: &[Column] = &[
    NAME,
    integer(
        "Webhooks",
        "The number of webhooks in this configuration, each with rules of its own.",
    ),
    AGE,
];
