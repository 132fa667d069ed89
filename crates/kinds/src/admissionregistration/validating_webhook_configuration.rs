//! `ValidatingWebhookConfiguration`: webhooks that validate objects before they are stored.
//!
//! This file defines the kind; `admission/webhook.rs` of `apiserver` calls the webhooks.

use super::webhook::{cells, defaults, validate, warnings};
use crate::table;
use types::columns::{AGE, NAME, integer};
use types::resource::{Column, Columns, Resource, Strategy};

/// The resource of the kind `ValidatingWebhookConfiguration`.
pub fn resource() -> Resource {
    let shape = "admissionregistration/v1.ValidatingWebhookConfiguration";
    super::resource(
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        &STRATEGY,
        table::v1(shape, Columns::Fixed(COLUMNS, cells)),
    )
}

static STRATEGY: Strategy = Strategy {
    defaults,
    validate: |object, errors| {
        validate(object, None, errors);
        super::refuse_reserved_name(object, errors);
    },
    validate_update: |new, old, errors| validate(new, Some(old), errors),
    generation: true,
    unconditional_update: false,
    warnings,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    integer(
        "Webhooks",
        "The number of webhooks in this configuration, each with rules of its own.",
    ),
    AGE,
];
