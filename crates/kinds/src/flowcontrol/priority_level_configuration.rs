//! `PriorityLevelConfiguration`: the concurrency limit and the queues of a priority level.

use super::GROUP;
use super::flow_schema::validate_conditions;
use super::mandatory::{self, EXEMPT};
use crate::table;
use crate::validation::rules::{in_range, one_of, required};
use machinery::fields::{
    at, default_number, default_value, integer, map_mut, number, part, text, top,
};
use machinery::{ErrorList, Object, Path, Value};
use types::columns::{AGE, NAME, age, column};
use types::resource::{
    Column, Columns, Now, Resource, Strategy, Version, drop_status, keep_status,
};

/// The resource of the kind `PriorityLevelConfiguration`.
pub fn resource() -> Resource {
    let shape = "flowcontrol/v1.PriorityLevelConfiguration";
    let version = Version { status: true, ..table::v1(shape, Columns::Fixed(COLUMNS, cells)) };
    let plural = "prioritylevelconfigurations";
    Resource {
        namespaced: false,
        ..table::resource(GROUP, "PriorityLevelConfiguration", plural, &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create: drop_status,
    prepare_update: keep_status,
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    validate_status: |new, _, errors| validate_conditions(new, errors),
    generation: true,
    ..Strategy::DEFAULT
};

static SPEC: Path<'static> = Path::root("spec");

const MAX_QUEUES: i64 = 10_000_000;
/// The number of bits of a flow's hash that choose its queues.
const HASH_BITS: u32 = 60;

const COLUMNS: &[Column] = &[
    NAME,
    column("Type", "Whether the requests of this level are limited: Limited or Exempt."),
    column(
        "NominalConcurrencyShares",
        "The share of the server's concurrency limit that this level gets.",
    ),
    column(
        "Queues",
        "The number of queues in which requests of this priority level wait for a seat.",
    ),
    column(
        "HandSize",
        "The number of queues among which a request is assigned to the shortest one.",
    ),
    column(
        "QueueLengthLimit",
        "The maximum number of requests that wait in one queue; further ones are refused.",
    ),
    AGE,
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let spec = top(object, "spec");
    let limited = at(spec, &["limited"]);
    let queuing = at(limited, &["limitResponse", "queuing"]);
    let shown = |of: &Value, key: &str| match of {
        Value::Null => Value::from("<none>"),
        of => number(of, key).into(),
    };
    vec![
        object.name().into(),
        text(spec, "type").into(),
        shown(limited, "nominalConcurrencyShares"),
        shown(queuing, "queues"),
        shown(queuing, "handSize"),
        shown(queuing, "queueLengthLimit"),
        age(object, now),
    ]
}

fn defaults(object: &mut Object) {
    let spec = object.map_at(&["spec"]);
    if let Some(exempt) = map_mut(spec, "exempt") {
        default_value(exempt, "nominalConcurrencyShares", 0.into());
        default_value(exempt, "lendablePercent", 0.into());
    }
    let Some(limited) = map_mut(spec, "limited") else { return };
    default_value(limited, "nominalConcurrencyShares", 30.into());
    default_value(limited, "lendablePercent", 0.into());
    let queuing =
        map_mut(limited, "limitResponse").and_then(|response| map_mut(response, "queuing"));
    if let Some(queuing) = queuing {
        default_number(queuing, "handSize", 8);
        default_number(queuing, "queues", 64);
        default_number(queuing, "queueLengthLimit", 50);
    }
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    let kind = text(spec, "type");
    if (object.name() == EXEMPT) != (kind == "Exempt") {
        let message = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.invalid(&SPEC.child("type"), kind, message);
    }
    let (limited, exempt) = (part(spec, "limited"), part(spec, "exempt"));
    match kind {
        "Exempt" => {
            if limited.is_some() {
                errors.forbidden(&SPEC.child("limited"), "");
            }
            if let Some(exempt) = exempt {
                validate_shares(errors, &SPEC.child("exempt"), exempt);
            }
        }
        "Limited" => {
            if exempt.is_some() {
                errors.forbidden(&SPEC.child("exempt"), "");
            }
            match limited {
                None => errors.declarative(|it| it.required(&SPEC.child("limited"), "")),
                Some(limited) => validate_limited(errors, &SPEC.child("limited"), limited),
            }
        }
        kind => {
            if !kind.is_empty() {
                one_of(errors, &SPEC.child("type"), kind, &["Exempt", "Limited"]);
            }
            for key in ["limited", "exempt"] {
                if part(spec, key).is_some() {
                    errors.forbidden(&SPEC.child(key), "");
                }
            }
            required(errors, &SPEC.child("type"), kind);
        }
    }
    mandatory::validate_priority_level(object, errors);
    validate_conditions(object, errors);
}

fn validate_shares(errors: &mut ErrorList, path: &Path<'_>, shares: &Value) {
    if let Some(count) = integer(shares, "nominalConcurrencyShares").filter(|it| *it < 0) {
        let message = "must be a non-negative integer";
        errors.invalid(&path.child("nominalConcurrencyShares"), count, message);
    }
    if let Some(percent) = integer(shares, "lendablePercent") {
        in_range(errors, &path.child("lendablePercent"), percent, 0, 100);
    }
}

fn validate_limited(errors: &mut ErrorList, path: &Path<'_>, limited: &Value) {
    validate_shares(errors, path, limited);
    if let Some(percent) = integer(limited, "borrowingLimitPercent").filter(|it| *it < 0) {
        let message = "if specified, must be a non-negative integer";
        errors.invalid(&path.child("borrowingLimitPercent"), percent, message);
    }
    let response = at(limited, &["limitResponse"]);
    let path = path.child("limitResponse");
    let queuing = path.child("queuing");
    match (text(response, "type"), part(response, "queuing")) {
        ("Reject", Some(_)) => errors.forbidden(&queuing, ""),
        ("Queue", None) => errors.required(&queuing, ""),
        ("Queue", Some(it)) => validate_queuing(errors, &queuing, it),
        ("Reject", None) => {}
        (kind, other) => {
            if !kind.is_empty() {
                one_of(errors, &path.child("type"), kind, &["Queue", "Reject"]);
            }
            if other.is_some() {
                errors.forbidden(&queuing, "");
            }
            required(errors, &path.child("type"), kind);
        }
    }
}

fn validate_queuing(errors: &mut ErrorList, path: &Path<'_>, queuing: &Value) {
    let (length, queues, hand) = (
        number(queuing, "queueLengthLimit"),
        number(queuing, "queues"),
        number(queuing, "handSize"),
    );
    if length <= 0 {
        errors.invalid(&path.child("queueLengthLimit"), length, "must be positive");
    }
    if queues <= 0 {
        errors.invalid(&path.child("queues"), queues, "must be positive");
    } else if queues > MAX_QUEUES {
        let message = format!("must not be greater than {MAX_QUEUES}");
        errors.invalid(&path.child("queues"), queues, &message);
    }
    let path = path.child("handSize");
    if hand <= 0 {
        errors.invalid(&path, hand, "must be positive");
    } else if hand > queues {
        errors.invalid(&path, hand, &format!("should not be greater than queues ({queues})"));
    } else if entropy_bits(queues, hand) > HASH_BITS {
        let message = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        );
        errors.invalid(&path, hand, &message);
    }
}

/// The number of bits needed to choose one hand of this size from the deck.
fn entropy_bits(deck: i64, hand: i64) -> u32 {
    let mut hands: u128 = 1;
    for card in 0..hand {
        hands = hands.saturating_mul(u128::from(u64::try_from(deck - card).unwrap_or(1)));
        if hands == u128::MAX {
            break;
        }
    }
    u128::BITS - hands.saturating_sub(1).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{created, refusals};
    use machinery::json;

    fn check(spec: Value, expected: &[&str]) {
        assert_eq!(refusals(&STRATEGY, json!({"spec": spec})), expected);
    }

    #[test]
    fn a_limited_level_defaults_to_30_shares_and_64_queues() {
        let spec = json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}});
        assert_eq!(
            created(&STRATEGY, json!({"spec": spec}))["spec"]["limited"],
            json!({"nominalConcurrencyShares": 30, "lendablePercent": 0, "limitResponse": {"type": "Queue",
                "queuing": {"handSize": 8, "queues": 64, "queueLengthLimit": 50}}})
        );
    }

    #[test]
    fn the_hand_size_is_limited_by_the_queues_and_the_hash() {
        let limited = |queues: i64, hand: i64| json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {"queues": queues, "handSize": hand}}}});
        check(
            limited(4, 5),
            &[
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 5: should not be greater than queues (4)",
            ],
        );
        check(
            limited(1024, 8),
            &[
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 8: required entropy bits of deckSize 1024 and handSize 8 should not be greater than 60",
            ],
        );
    }

    #[test]
    fn only_the_level_named_exempt_may_be_exempt() {
        check(
            json!({"type": "Exempt"}),
            &[
                r#"spec.type: Invalid value: "Exempt": must be 'Exempt' if and only if `name` is 'exempt'"#,
            ],
        );
    }
}
