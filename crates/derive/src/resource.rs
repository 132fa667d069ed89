//! `#[resource]` and `#[schema]`: add the derives, with the paths of the crates that their expansions
//! use, so that an operator's `Cargo.toml` need not list these crates.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::{Attribute, Data, DeriveInput, Expr, Fields, Lit, Meta, Path, Token, Type};

use crate::arguments::{Arguments, Metas};
use crate::markers::{FIELD_ARGUMENTS, FIELD_PATCH, Markers, TYPE_PATCH, unknown_argument};
use crate::object_options::ObjectOptions;

/// The extension of a type whose optional fields do not accept null. The runtime removes it.
const NOT_NULLABLE: &str = "x-sampan-not-nullable";

/// `#[schema(…)]` on a type.
pub(crate) fn schema(arguments: TokenStream, mut item: DeriveInput) -> syn::Result<TokenStream> {
    let arguments = Arguments::parse(arguments)?;
    if let Some(meta) = arguments.rest.first() {
        let known = [&FIELD_ARGUMENTS[..], &["nullable", "crate_path"]].concat();
        return Err(unknown_argument(meta, "#[schema(…)]", &known));
    }
    expand_schema(&arguments, &arguments.markers, &mut item)?;
    let part_checks = part_checks(&arguments, &item);
    // Before the item, so that its errors come first.
    Ok(quote!(#part_checks #item))
}

/// `#[resource(…)]` on the spec of a kind.
pub(crate) fn resource(arguments: TokenStream, mut item: DeriveInput) -> syn::Result<TokenStream> {
    if !matches!(item.data, Data::Struct(_)) {
        return Err(syn::Error::new_spanned(
            &item.ident,
            "the spec of a resource must be a struct",
        ));
    }
    let mut arguments = Arguments::parse(arguments)?;
    let options = arguments.take_object_options()?;
    arguments.check_names(&item)?;
    if !arguments.rest.iter().any(|it| it.path().is_ident("doc"))
        && let Some(documentation) = documentation(&item.attrs)
    {
        arguments.rest.push(syn::parse_quote!(doc = #documentation));
    }
    let derived = derives(&item.attrs)?;
    expand_schema(&arguments, &arguments.markers, &mut item)?;
    if !options.optional_spec {
        let object = expand_object(&mut arguments, &options, &mut item)?;
        let part_checks = part_checks(&arguments, &item);
        return Ok(quote!(#part_checks #item #object));
    }
    let part_checks = part_checks(&arguments, &item);
    let mut optional = ObjectOptions::optional_spec(&item, &derived);
    expand_schema(&arguments, &Markers::default(), &mut optional)?;
    arguments.rest.push(syn::parse_quote!(no_spec));
    let object = expand_object(&mut arguments, &options, &mut optional)?;
    let traits = ObjectOptions::optional_spec_traits(&item.ident);
    Ok(quote!(#part_checks #item #optional #traits #object))
}

/// Adds what makes `spec` the spec of a kind, and returns the implementations for the kind.
fn expand_object(
    arguments: &mut Arguments,
    options: &ObjectOptions,
    spec: &mut DeriveInput,
) -> syn::Result<TokenStream> {
    let macro_support = arguments.macro_support();
    let path = |krate: &str| quote!(#macro_support).to_string().replace(' ', "") + "::" + krate;
    let (core, openapi) = (path(options.core_module()), path("k8s_openapi"));
    let (schemars, serde) = (path("schemars"), path("serde"));
    let (json, kube) = (path("serde_json"), path("kube_derive"));
    let root_schema = arguments.root_schema(spec)?;
    if root_schema.is_some() {
        arguments.rest.push(syn::parse_quote!(schema = "manual"));
    }
    let crd = options.crd(&arguments.root(&spec.ident)?, &macro_support);
    let rest = &arguments.rest;
    spec.attrs.insert(0, syn::parse_quote!(#[derive(#macro_support::kube_derive::CustomResource)]));
    spec.attrs.push(syn::parse_quote!(
        #[kube(#rest, crates(kube = #kube, kube_core = #core, k8s_openapi = #openapi,
            schemars = #schemars, serde = #serde, serde_json = #json))]
    ));
    Ok(quote!(#root_schema #crd))
}

fn expand_schema(
    arguments: &Arguments,
    markers: &Markers,
    item: &mut DeriveInput,
) -> syn::Result<()> {
    let macro_support = arguments.macro_support();
    let present = derives(&item.attrs)?;
    let wanted: [(&str, Path); 5] = [
        ("Clone", syn::parse_quote!(::core::clone::Clone)),
        ("Debug", syn::parse_quote!(::core::fmt::Debug)),
        ("Serialize", syn::parse_quote!(#macro_support::serde::Serialize)),
        ("Deserialize", syn::parse_quote!(#macro_support::serde::Deserialize)),
        ("JsonSchema", syn::parse_quote!(#macro_support::schemars::JsonSchema)),
    ];
    let missing =
        wanted.iter().filter(|(name, _)| !present.iter().any(|it| it == name)).map(|(_, it)| it);
    // At the front, since the helper attributes of a derive must follow it.
    item.attrs.insert(0, syn::parse_quote!(#[derive(#(#missing),*)]));
    let serde = quote!(#macro_support::serde).to_string().replace(' ', "");
    let schemars = quote!(#macro_support::schemars).to_string().replace(' ', "");
    item.attrs.push(syn::parse_quote!(#[serde(crate = #serde)]));
    item.attrs.push(syn::parse_quote!(
        #[schemars(crate = #schemars, transform = #macro_support::remove_unsupported_formats)]
    ));
    if matches!(item.data, Data::Struct(_)) && !has_rename_all(&item.attrs)? {
        item.attrs.push(syn::parse_quote!(#[serde(rename_all = "camelCase")]));
    }
    item.attrs.extend(markers.attribute(TYPE_PATCH));
    if !arguments.nullable {
        item.attrs.push(syn::parse_quote!(#[schemars(extend(#NOT_NULLABLE = true))]));
        leave_out_absent_fields(&mut item.data);
    }
    each_field(&mut item.data, &mut |attributes| {
        let markers = Markers::of_field(attributes)?;
        attributes.extend(markers.attribute(FIELD_PATCH));
        Ok(())
    })
}

/// Absent fields are not written as null. A field with `#[schemars(required)]` is always written, and
/// one with an attribute of its own as that says.
fn leave_out_absent_fields(data: &mut Data) {
    let Data::Struct(data) = data else { return };
    let is_option = |ty: &Type| match ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|it| it.ident == "Option"),
        _ => false,
    };
    for field in data.fields.iter_mut().filter(|field| is_option(&field.ty)) {
        if !has_meta(&field.attrs, &["required", "skip", "skip_serializing", "skip_serializing_if"])
        {
            field.attrs.push(syn::parse_quote!(
                #[serde(skip_serializing_if = "::core::option::Option::is_none")]
            ));
        }
    }
}

/// Checks that the type of each field has a schema, so that the error says what to add. A type with
/// parameters is not checked, since a check would need their bounds.
fn part_checks(arguments: &Arguments, item: &DeriveInput) -> Option<TokenStream> {
    let mut types = Vec::new();
    let mut collect = |fields: &Fields| {
        let parts = fields.iter().filter(|field| !has_own_schema(&field.attrs));
        types.extend(parts.map(|field| element_type(&field.ty).clone()));
    };
    match &item.data {
        Data::Struct(data) => collect(&data.fields),
        Data::Enum(data) => data.variants.iter().for_each(|variant| collect(&variant.fields)),
        Data::Union(_) => {}
    }
    if types.is_empty() || !item.generics.params.is_empty() {
        return None;
    }
    let macro_support = arguments.macro_support();
    let checks = types.iter().map(|ty| {
        let span = syn::spanned::Spanned::span(ty);
        quote_spanned!(span=> let _ = #macro_support::is_part::<#ty>;)
    });
    Some(quote!(const _: () = { #(#checks)* };))
}

/// The type in options, lists and maps: that of the elements.
fn element_type(ty: &Type) -> &Type {
    let Type::Path(path) = ty else { return ty };
    let Some(last) = path.path.segments.last() else { return ty };
    let containers = ["Option", "Vec", "Box", "BTreeMap", "HashMap", "BTreeSet"];
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return ty };
    match arguments.args.last() {
        Some(syn::GenericArgument::Type(inner)) if containers.iter().any(|it| last.ident == it) => {
            element_type(inner)
        }
        _ => ty,
    }
}

/// Whether a field is left out of the schema, or has one that is not that of its type.
fn has_own_schema(attributes: &[Attribute]) -> bool {
    has_meta(attributes, &["skip", "with", "schema_with", "skip_serializing", "skip_deserializing"])
}

/// Whether an attribute of serde or schemars has one of these arguments.
fn has_meta(attributes: &[Attribute], names: &[&str]) -> bool {
    let relevant = attributes
        .iter()
        .filter(|it| it.path().is_ident("serde") || it.path().is_ident("schemars"));
    let mut metas =
        relevant.filter_map(|it| it.parse_args_with(Metas::parse_terminated).ok()).flatten();
    metas.any(|meta| names.iter().any(|name| meta.path().is_ident(name)))
}

/// The last segments of all derived traits.
fn derives(attributes: &[Attribute]) -> syn::Result<Vec<String>> {
    let mut names = Vec::new();
    for attribute in attributes.iter().filter(|it| it.path().is_ident("derive")) {
        let paths = attribute.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated)?;
        let last = |path: &Path| path.segments.last().map(|it| it.ident.to_string());
        names.extend(paths.iter().filter_map(last));
    }
    Ok(names)
}

/// Whether an attribute of serde renames all fields.
fn has_rename_all(attributes: &[Attribute]) -> syn::Result<bool> {
    for attribute in attributes.iter().filter(|it| it.path().is_ident("serde")) {
        let metas = attribute.parse_args_with(Metas::parse_terminated)?;
        if metas.iter().any(|it| it.path().is_ident("rename_all")) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The doc comment as one line, for descriptions.
fn documentation(attributes: &[Attribute]) -> Option<String> {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|it| it.path().is_ident("doc")) {
        if let Meta::NameValue(meta) = &attribute.meta
            && let Expr::Lit(value) = &meta.value
            && let Lit::Str(text) = &value.lit
        {
            lines.push(text.value().trim().to_owned());
        }
    }
    let text = lines.join(" ").trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn each_field(
    data: &mut Data,
    visit: &mut dyn FnMut(&mut Vec<Attribute>) -> syn::Result<()>,
) -> syn::Result<()> {
    let mut each = |fields: &mut Fields| fields.iter_mut().try_for_each(|it| visit(&mut it.attrs));
    match data {
        Data::Struct(data) => each(&mut data.fields),
        Data::Enum(data) => data.variants.iter_mut().try_for_each(|it| each(&mut it.fields)),
        Data::Union(data) => Err(syn::Error::new_spanned(
            data.union_token,
            "a union cannot be serialized; use a struct or an enum",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expansion, or the error, without white space.
    fn expanded(result: syn::Result<TokenStream>) -> String {
        result.map_or_else(|it| it.to_string(), |it| it.to_string().replace(' ', ""))
    }

    #[test]
    fn a_schema_adds_only_missing_derives_and_keeps_rename_all() {
        let item = syn::parse_quote! {
            #[derive(Default, Clone)]
            #[serde(rename_all = "kebab-case")]
            struct Part { size: i32 }
        };
        let expanded = expanded(schema(quote!(crate_path = crate), item));
        assert_eq!(expanded.matches("Clone").count(), 1, "{expanded}");
        assert!(expanded.contains("crate::macro_support::serde::Serialize"), "{expanded}");
        assert!(!expanded.contains("camelCase"), "{expanded}");
    }

    #[test]
    fn the_documentation_of_a_spec_describes_its_kind() {
        let item = syn::parse_quote! {
            /// A site with
            /// a number of pods.
            struct SiteSpec { size: i32 }
        };
        let arguments = quote!(group = "example.com", version = "v1", kind = "Site");
        let expanded = expanded(resource(arguments, item));
        let kube =
            r#"#[kube(group="example.com",version="v1",kind="Site",doc="Asitewithanumberofpods.","#;
        assert!(expanded.contains(kube), "{expanded}");
        assert!(
            expanded.contains(r#"kube_core="::runtime::macro_support::kube_core""#),
            "{expanded}"
        );
    }

    #[test]
    fn object_rules_replace_the_schema_of_kube_derive() {
        let item = syn::parse_quote!(
            struct SiteSpec {
                size: i32,
            }
        );
        let rule = quote!(
            group = "g",
            version = "v1",
            kind = "Site",
            status = "super::Status",
            object_rule("true")
        );
        let expanded = expanded(resource(rule, item));
        assert!(expanded.contains(r#"schema="manual""#), "{expanded}");
        let root = "structRoot{spec:SiteSpec,status:::core::option::Option<super::Status>,}";
        assert!(expanded.contains(root), "{expanded}");
    }

    #[test]
    fn an_optional_spec_is_a_field_of_the_struct_that_kube_derive_takes() {
        let item = syn::parse_quote!(
            #[derive(PartialEq)]
            struct SiteSpec {
                size: Option<i32>,
                #[schemars(required)]
                name: Option<String>,
            }
        );
        let arguments = quote!(
            group = "g",
            version = "v1",
            kind = "Site",
            optional_spec,
            nullable = false,
            status_subresource = false
        );
        let expanded = expanded(resource(arguments, item));
        assert!(expanded.contains("structOptionalSiteSpec{"), "{expanded}");
        assert!(expanded.contains("#[derive(Default,PartialEq)]"), "{expanded}");
        assert!(expanded.contains("macro_support::draft_kube_core"), "{expanded}");
        assert!(expanded.contains("with_status_subresource("), "{expanded}");
        assert_eq!(expanded.matches("x-sampan-not-nullable").count(), 2, "{expanded}");
        assert_eq!(expanded.matches("skip_serializing_if").count(), 2, "{expanded}");
    }

    #[test]
    fn errors_name_the_mistake() {
        let part: DeriveInput = syn::parse_quote!(
            struct Part {
                size: i32,
            }
        );
        let error = expanded(schema(quote!(group = "example.com"), part));
        let known = "rule, list_type, list_map_keys, map_type, preserve_unknown_fields, \
                     embedded_resource, int_or_string, patch, nullable, crate_path";
        assert_eq!(error, format!("unknown argument `group` of #[schema(…)]; known: {known}"));
        let kinds: DeriveInput = syn::parse_quote!(
            enum Kinds {
                A,
            }
        );
        let error = expanded(resource(quote!(kind = "A"), kinds));
        assert_eq!(error, "the spec of a resource must be a struct");
        let spec: DeriveInput = syn::parse_quote!(
            struct SiteSpec {
                size: i32,
            }
        );
        let named = quote!(group = "example.com", version = "v1", kind = "Site", namespace);
        let error = expanded(resource(named, spec.clone()));
        let start = "unknown argument `namespace` of #[resource(…)]; known: group, version, kind, namespaced, ";
        assert!(error.starts_with(start), "{error}");
        let error = expanded(resource(quote!(group = "example.com", kind = "Site"), spec));
        assert_eq!(error, "missing argument `version = \"…\"` of #[resource(…)]");
    }

    #[test]
    fn the_type_of_each_field_must_have_a_schema() {
        let item = syn::parse_quote! {
            struct Part { themes: Option<Vec<Theme>>, #[serde(skip)] cache: Cache }
        };
        let expanded = expanded(schema(quote!(), item));
        assert!(expanded.contains("is_part::<Theme>"), "{expanded}");
        assert!(!expanded.contains("is_part::<Cache>"), "{expanded}");
    }
}
