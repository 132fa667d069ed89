//! CEL, the Common Expression Language, as Kubernetes uses it.
//!
//! An expression is compiled once, with declared variables, and evaluated many times on JSON, which
//! is not copied:
//!
//! ```
//! use cel::{Bindings, Budget, DeclType, Env, Library, Object};
//!
//! let fields = [("min".to_owned(), DeclType::int()), ("max".to_owned(), DeclType::int())];
//! let spec = DeclType::object(Object::new("spec", fields));
//! let env = Env::new(Library::kubernetes()).variable("self", spec);
//!
//! let program = env.compile("self.min <= self.max").expect("the expression is valid");
//! assert!(program.estimate_cost().max < 10_000_000);
//!
//! let object = serde_json::json!({"min": 2, "max": 1});
//! let mut budget = Budget::new(1_000_000);
//! let value = program.evaluate(&Bindings::new().json("self", &object), &mut budget);
//! assert_eq!(value.expect("both fields are integers").as_bool(), Some(false));
//!
//! let refused = env.compile("self.min == 'x'").expect_err("an int and a string cannot be compared");
//! assert!(refused.to_string().ends_with(" | self.min == 'x'\n | .........^"));
//! ```
//!
//! The phases: `lexer` → `parser`, which expands `macros` → `checker`, which assigns a type to
//! every node → `plan`, and `cost` with its estimate → `evaluator`, which counts the cost of each
//! step. The functions are in [`library`].
//!
//! No expression makes this crate panic, recurse without limit or exceed the budget: nesting, size,
//! patterns and costs are limited. Messages that clients see are exactly cel-go's.

mod ast;
mod checker;
mod cost;
mod decl;
mod env;
mod error;
pub mod escaping;
mod evaluator;
mod go_netip;
pub mod go_regexp;
pub mod go_url;
mod lexer;
pub mod library;
mod literal;
mod macros;
mod parser;
mod plan;
mod program;
mod source;
mod time;
mod types;
mod value;

pub use cost::CostEstimate;
pub use decl::{DeclKind, DeclType, Field, ListKind, Object};
pub use env::{CompileError, Env, Messages};
pub use error::EvalError;
pub use library::{Extension, Library};
pub use program::{Bindings, Budget, Program};
pub use source::{CompileErrors, Issue};
pub use time::{Duration, Timestamp};
pub use types::Type;
pub use value::{Fields, List, Map, Opaque, Struct, Text, Value};
