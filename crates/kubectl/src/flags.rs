//! Flags as kubectl parses them: `--watch` and `--watch=false`, where clap alone has only the first.

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction};

/// Lets a flag without a value also be given one, after `=`.
pub(crate) fn with_bool_values(arg: Arg) -> Arg {
    if !matches!(arg.get_action(), ArgAction::SetTrue) {
        return arg;
    }
    arg.action(ArgAction::Set)
        .value_parser(BoolishValueParser::new())
        .num_args(0..=1)
        .require_equals(true)
        .default_value("false")
        .default_missing_value("true")
        .value_name("BOOL")
        .hide_default_value(true)
        .hide_possible_values(true)
}
