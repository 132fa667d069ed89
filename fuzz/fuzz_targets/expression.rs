//! CEL expressions: evaluation stays within its budget and is deterministic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use fuzz::amplify;

use cel::{Bindings, Budget, DeclType, Env, EvalError, Library, Object};
use machinery::json;

/// A small cost budget, so that no input runs long.
const LIMIT: u64 = 20_000;

fuzz_target!(|bytes: &[u8]| fuzz::bounded(bytes, |bytes| run(&amplify::text(bytes))));

fn run(source: &str) {
    let fields = [
        ("n".to_owned(), DeclType::int()),
        ("s".to_owned(), DeclType::string(20)),
        ("l".to_owned(), DeclType::list(DeclType::string(20), 5)),
        ("m".to_owned(), DeclType::map(DeclType::int(), 5)),
        ("any".to_owned(), DeclType::any()),
    ];
    let self_type = DeclType::object(Object::new("self", fields));
    let env = Env::new(Library::kubernetes())
        .variable("self", self_type.clone())
        .optional_variable("oldSelf", self_type);
    let program = match env.compile(source) {
        Ok(program) => program,
        Err(error) => {
            let _ = error.to_string();
            return;
        }
    };
    let estimate = program.estimate_cost();
    assert!(estimate.min <= estimate.max, "{source}");
    let data = json!({"n": 3, "s": "héllo", "l": ["a", "b", ""], "m": {"k": 1}, "any": [1, null]});
    let bindings = Bindings::new().json("self", &data).optional_json("oldSelf", Some(&data));
    let run = || {
        let mut budget = Budget::new(LIMIT);
        let shown = match program.evaluate(&bindings, &mut budget) {
            Ok(value) => value.to_string(),
            Err(EvalError::Cost) => {
                assert_eq!(budget.remaining, 0, "{source}");
                "over budget".to_owned()
            }
            Err(error) => error.to_string(),
        };
        (shown, budget.remaining)
    };
    assert_eq!(run(), run(), "{source}");
}
