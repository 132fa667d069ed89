//! The templates of a project, which are part of the program.

use anyhow::{Context, Result};
use minijinja::{Environment, UndefinedBehavior, Value};

macro_rules! templates {
    ($($constant:ident = $file:literal;)*) => {
        $(
            #[doc = concat!("The template `", $file, "`.")]
            pub(crate) const $constant: &str = include_str!(concat!("templates/", $file, ".jinja"));
        )*
    };
}

templates! {
    CARGO = "Cargo.toml";
    README = "README.md";
    RUSTFMT = "rustfmt.toml";
    GITIGNORE = "gitignore";
    MAIN = "main.rs";
    LIB = "lib.rs";
    TESTS = "tests_main.rs";
    KIND = "kind/kind.rs";
    CONTROLLER = "kind/controller.rs";
    EXAMPLE = "kind/example.yaml";
    KIND_TEST = "kind/test.rs";
    VERSION = "kind/version.rs";
    DEFAULTING = "webhook/defaulting.rs";
    VALIDATION = "webhook/validation.rs";
    CONVERSION = "webhook/conversion.rs";
    VARIANT = "webhook/variant";
    CONVERSIONS = "webhook/conversions";
}

/// Fills in a template. A value that is missing is an error.
pub(crate) fn render(template: &str, values: &Value) -> Result<String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_keep_trailing_newline(true);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.render_str(template, values).context("a template of `sampan` is not valid")
}
