//! [`Markers`]: the arguments of `#[schema(…)]` on a type or a field, as the `x-kubernetes-…`
//! extensions of its schema.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, LitStr, Meta, Token};

use crate::schema_patch::SchemaPatch;

/// The extension with the patch of a field. The runtime applies and removes it.
pub(crate) const FIELD_PATCH: &str = "x-sampan-patch";
/// The extension with the patch of a type: a field of this type may have another one.
pub(crate) const TYPE_PATCH: &str = "x-sampan-type-patch";

/// The arguments of `#[schema(…)]` on a field, for messages.
pub(crate) const FIELD_ARGUMENTS: [&str; 8] = [
    "rule",
    "list_type",
    "list_map_keys",
    "map_type",
    "preserve_unknown_fields",
    "embedded_resource",
    "int_or_string",
    "patch",
];

/// The arguments of a rule after its expression.
const RULE_ARGUMENTS: [&str; 5] =
    ["message", "message_expression", "reason", "field_path", "optional_old_self"];

/// The error for an argument that `place` does not have, with those that it has.
pub(crate) fn unknown_argument(meta: &Meta, place: &str, known: &[&str]) -> syn::Error {
    let name = meta.path().segments.iter().map(|it| it.ident.to_string()).collect::<Vec<_>>();
    let (name, known) = (name.join("::"), known.join(", "));
    syn::Error::new_spanned(meta, format!("unknown argument `{name}` of {place}; known: {known}"))
}

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Markers {
    rules: Vec<TokenStream>,
    /// Names and values, in the order of the source.
    extensions: Vec<(&'static str, TokenStream)>,
    patch: SchemaPatch,
}

impl Markers {
    /// Adds `meta` if it is a marker, and returns whether it is one.
    pub(crate) fn take(&mut self, meta: &Meta) -> syn::Result<bool> {
        let Some(name) = meta.path().get_ident().map(ToString::to_string) else {
            return Ok(false);
        };
        match name.as_str() {
            "rule" => self.take_rule(meta)?,
            "list_type" => {
                let value = one_of(meta, &["atomic", "set", "map"])?;
                self.extend(meta, "x-kubernetes-list-type", quote!(#value))?;
            }
            "list_map_keys" => {
                let list = meta.require_list()?;
                let keys =
                    list.parse_args_with(Punctuated::<LitStr, Token![,]>::parse_terminated)?;
                if keys.is_empty() {
                    return Err(syn::Error::new_spanned(
                        meta,
                        "`list_map_keys` needs at least one key",
                    ));
                }
                self.extend(meta, "x-kubernetes-list-type", quote!("map"))?;
                self.extend(meta, "x-kubernetes-list-map-keys", quote!([#keys]))?;
            }
            "map_type" => {
                let value = one_of(meta, &["atomic", "granular"])?;
                self.extend(meta, "x-kubernetes-map-type", quote!(#value))?;
            }
            "preserve_unknown_fields" => {
                self.flag(meta, "x-kubernetes-preserve-unknown-fields")?;
            }
            "embedded_resource" => self.flag(meta, "x-kubernetes-embedded-resource")?,
            "int_or_string" => self.flag(meta, "x-kubernetes-int-or-string")?,
            "patch" => self.take_patch(meta)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Adds the arguments of `meta` as a rule.
    pub(crate) fn take_rule(&mut self, meta: &Meta) -> syn::Result<()> {
        let rule: Rule = meta.require_list()?.parse_args()?;
        self.rules.push(rule.json());
        Ok(())
    }

    /// Adds the arguments of `meta` as keywords.
    pub(crate) fn take_patch(&mut self, meta: &Meta) -> syn::Result<()> {
        self.patch.extend(meta.require_list()?.parse_args()?, meta)
    }

    /// The markers of a field, whose `#[schema(…)]` attributes are removed.
    pub(crate) fn of_field(attributes: &mut Vec<Attribute>) -> syn::Result<Self> {
        let mut markers = Self::default();
        for attribute in attributes.iter().filter(|it| it.path().is_ident("schema")) {
            let metas =
                attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?;
            for meta in &metas {
                if !markers.take(meta)? {
                    let place = "#[schema(…)] on a field";
                    return Err(unknown_argument(meta, place, &FIELD_ARGUMENTS));
                }
            }
        }
        attributes.retain(|it| !it.path().is_ident("schema"));
        Ok(markers)
    }

    /// The attribute for schemars with all extensions; `patch` is the name of that with the patch.
    pub(crate) fn attribute(&self, patch: &str) -> Option<Attribute> {
        let mut entries: Vec<TokenStream> =
            self.extensions.iter().map(|(name, value)| quote!(#name = #value)).collect();
        if !self.rules.is_empty() {
            let rules = &self.rules;
            entries.push(quote!("x-kubernetes-validations" = [#(#rules),*]));
        }
        if let Some(json) = self.patch.json() {
            entries.push(quote!(#patch = #json));
        }
        if entries.is_empty() {
            return None;
        }
        Some(syn::parse_quote!(#[schemars(extend(#(#entries),*))]))
    }

    fn flag(&mut self, meta: &Meta, name: &'static str) -> syn::Result<()> {
        meta.require_path_only()?;
        self.extend(meta, name, quote!(true))
    }

    fn extend(&mut self, meta: &Meta, name: &'static str, value: TokenStream) -> syn::Result<()> {
        if self.extensions.iter().any(|(other, _)| *other == name) {
            return Err(syn::Error::new_spanned(meta, format!("{name} is set twice")));
        }
        self.extensions.push((name, value));
        Ok(())
    }
}

/// The value of `name = "value"`, which must be one of `values`.
fn one_of(meta: &Meta, values: &[&str]) -> syn::Result<LitStr> {
    let value: LitStr = syn::parse2(value(meta)?)?;
    if values.contains(&value.value().as_str()) {
        return Ok(value);
    }
    Err(syn::Error::new(value.span(), format!("must be one of {}", values.join(", "))))
}

/// The value of `name = value`.
fn value(meta: &Meta) -> syn::Result<TokenStream> {
    let value = &meta.require_name_value()?.value;
    Ok(quote!(#value))
}

/// `rule("expression", message = "…", optional_old_self)`
struct Rule {
    rule: LitStr,
    /// The other fields of the rule: their JSON names and values.
    fields: Vec<(&'static str, TokenStream)>,
}

impl Parse for Rule {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let rule: LitStr = input.parse()?;
        if rule.value().trim().is_empty() {
            return Err(syn::Error::new(rule.span(), "the expression of a rule must not be empty"));
        }
        let mut fields = Vec::new();
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            let meta: Meta = input.parse()?;
            let name = meta.path().get_ident().map(ToString::to_string).unwrap_or_default();
            let (name, value) = match name.as_str() {
                "message" => ("message", text(&meta)?),
                "message_expression" => ("messageExpression", text(&meta)?),
                "field_path" => ("fieldPath", text(&meta)?),
                "reason" => {
                    let reasons = [
                        "FieldValueInvalid",
                        "FieldValueForbidden",
                        "FieldValueRequired",
                        "FieldValueDuplicate",
                    ];
                    let reason = one_of(&meta, &reasons)?;
                    ("reason", quote!(#reason))
                }
                "optional_old_self" => {
                    meta.require_path_only()?;
                    ("optionalOldSelf", quote!(true))
                }
                _ => return Err(unknown_argument(&meta, "a rule", &RULE_ARGUMENTS)),
            };
            fields.push((name, value));
        }
        Ok(Self { rule, fields })
    }
}

impl Rule {
    fn json(&self) -> TokenStream {
        let rule = &self.rule;
        let entries = self.fields.iter().map(|(name, value)| quote!(#name: #value));
        quote!({"rule": #rule #(, #entries)*})
    }
}

fn text(meta: &Meta) -> syn::Result<TokenStream> {
    let value: LitStr = syn::parse2(value(meta)?)?;
    Ok(quote!(#value))
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;

    use super::*;

    /// Compares the attribute for schemars of a field with these attributes, or the error, with
    /// `expected`, without white space.
    fn check(attributes: &[Attribute], expected: &str) {
        let mut attributes = attributes.to_vec();
        let result =
            Markers::of_field(&mut attributes).map(|markers| markers.attribute(FIELD_PATCH));
        let found = match result {
            Ok(attribute) => attribute.map(|it| it.to_token_stream().to_string()),
            Err(error) => Some(error.to_string()),
        };
        let compact = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(compact(&found.unwrap_or_default()), compact(expected));
        if expected.starts_with('#') {
            assert!(attributes.is_empty(), "#[schema(…)] was not removed");
        }
    }

    #[test]
    fn a_field_without_markers_is_unchanged() {
        check(&[syn::parse_quote!(#[serde(default)])], "");
    }

    #[test]
    fn list_map_keys_imply_the_list_type_map() {
        check(
            &[syn::parse_quote!(#[schema(list_map_keys("name", "protocol"))])],
            r#"#[schemars(extend("x-kubernetes-list-type" = "map",
                "x-kubernetes-list-map-keys" = ["name", "protocol"]))]"#,
        );
    }

    #[test]
    fn several_rules_form_one_extension() {
        check(
            &[
                syn::parse_quote!(#[schema(rule("self > 0", message = "too small"))]),
                syn::parse_quote!(#[schema(rule("self == oldSelf", optional_old_self))]),
            ],
            r#"#[schemars(extend("x-kubernetes-validations" = [
                {"rule": "self > 0", "message": "too small"},
                {"rule": "self == oldSelf", "optionalOldSelf": true}]))]"#,
        );
    }

    #[test]
    fn patches_form_one_extension() {
        check(
            &[
                syn::parse_quote!(#[schema(patch("format" = null, "default" = -1))]),
                syn::parse_quote!(#[schema(patch("items" = {"maxLength": 3}))]),
            ],
            r#"#[schemars(extend("x-sampan-patch" =
                "{\"format\":null,\"default\":-1,\"items\":{\"maxLength\":3}}"))]"#,
        );
    }

    #[test]
    fn a_repeated_argument_is_refused() {
        check(&[syn::parse_quote!(#[schema(patch("a" = 1), patch("a" = 2))])], "a is set twice");
        check(
            &[syn::parse_quote!(#[schema(list_type = "set", list_map_keys("name"))])],
            "x-kubernetes-list-type is set twice",
        );
    }

    #[test]
    fn all_known_arguments_are_markers() {
        for name in FIELD_ARGUMENTS {
            let name = quote::format_ident!("{name}");
            let meta: Meta = syn::parse_quote!(#name);
            // Those with a value are refused since it is missing, but are not unknown.
            assert!(Markers::default().take(&meta).unwrap_or(true), "{name}");
        }
    }

    #[test]
    fn unknown_or_empty_arguments_are_refused() {
        check(
            &[syn::parse_quote!(#[schema(list_type = "bag")])],
            "must be one of atomic, set, map",
        );
        check(
            &[syn::parse_quote!(#[schema(lits_type = "set")])],
            "unknown argument `lits_type` of #[schema(…)] on a field; known: rule, list_type, \
             list_map_keys, map_type, preserve_unknown_fields, embedded_resource, int_or_string, \
             patch",
        );
        check(
            &[syn::parse_quote!(#[schema(rule("a", massage = "b"))])],
            "unknown argument `massage` of a rule; known: message, message_expression, reason, \
             field_path, optional_old_self",
        );
        check(
            &[syn::parse_quote!(#[schema(rule(""))])],
            "the expression of a rule must not be empty",
        );
        check(
            &[syn::parse_quote!(#[schema(list_map_keys())])],
            "`list_map_keys` needs at least one key",
        );
    }
}
