//! Enforces limit ranges: defaults for containers without requests ([`set_defaults`]), and the
//! validation of pods and claims ([`validate_pod`], [`validate_claim`]).

mod defaulting;
mod violations;

pub use defaulting::{TooManyDefaults, set_defaults};
pub use violations::{Refusal, validate_claim, validate_pod};

use crate::core::pod::totals::{Amounts, amounts};
use machinery::fields::{entries, list, text, top};
use machinery::{Map, Object, Value};

/// A parsed limit range.
#[derive(Debug, Default)]
pub struct Limits {
    /// The default limits of containers, as written in the object.
    default: Map<String, Value>,
    /// The default requests of containers.
    default_request: Map<String, Value>,
    bounds: Vec<Bounds>,
}

/// The limits of one type: `Container`, `Pod` or `PersistentVolumeClaim`.
#[derive(Debug)]
struct Bounds {
    kind: String,
    min: Amounts,
    max: Amounts,
    ratio: Amounts,
}

impl Limits {
    /// Parses a limit range.
    pub fn of(range: &Object) -> Self {
        let mut limits = Self::default();
        for limit in list(top(range, "spec"), "limits") {
            let kind = text(limit, "type").to_owned();
            if kind == "Container" {
                let copied =
                    |key| entries(limit, key).map(|(key, it)| (key.to_owned(), it.clone()));
                limits.default.extend(copied("default"));
                limits.default_request.extend(copied("defaultRequest"));
            }
            limits.bounds.push(Bounds {
                kind,
                min: amounts(limit, "min"),
                max: amounts(limit, "max"),
                ratio: amounts(limit, "maxLimitRequestRatio"),
            });
        }
        limits
    }
}
