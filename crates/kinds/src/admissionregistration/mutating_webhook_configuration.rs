//! `MutatingWebhookConfiguration`: webhooks that change objects before they are stored.
//!
//! This file defines the kind; `admission/webhook.rs` of `apiserver` calls the webhooks.

use super::webhook::{cells, defaults as webhook_defaults, validate, warnings};
use crate::table;
use machinery::Object;
use machinery::fields::{default_value, maps_mut};
use types::columns::{AGE, NAME, integer};
use types::resource::{Column, Columns, Resource, Strategy};

/// The resource of the kind `MutatingWebhookConfiguration`.
pub fn resource() -> Resource {
    let shape = "admissionregistration/v1.MutatingWebhookConfiguration";
    super::resource(
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
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

fn defaults(object: &mut Object) {
    webhook_defaults(object);
    for hook in maps_mut(object.map_mut(), "webhooks") {
        default_value(hook, "reinvocationPolicy", "Never".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::defaulted;
    use machinery::json;

    #[test]
    fn webhook_defaults_are_ten_seconds_and_no_reinvocation() {
        let hook = json!({"clientConfig": {"service": {}}, "rules": [{}]});
        assert_eq!(
            defaulted(&STRATEGY, json!({"webhooks": [hook]})),
            json!({"webhooks": [{"clientConfig": {"service": {"port": 443}}, "rules": [{"scope": "*"}],
                "failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
                "timeoutSeconds": 10, "reinvocationPolicy": "Never"}]})
        );
    }
}
