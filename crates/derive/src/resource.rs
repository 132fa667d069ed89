//! `#[resource]` and `#[schema]`: add the derives, with the paths of the crates that their expansions
//! use, so that an operator's `Cargo.toml` need not list these crates.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Expr, ExprLit, Fields, Ident, Lit, LitStr, Meta, Path, Token,
    Type,
};

use crate::markers::{FIELD_ARGUMENTS, Markers, unknown_argument};

/// The arguments of kube-derive that `#[resource(…)]` accepts.
const KUBE_ARGUMENTS: [&str; 24] = [
    "group",
    "version",
    "kind",
    "namespaced",
    "status",
    "scale",
    "printcolumn",
    "shortname",
    "category",
    "selectable",
    "plural",
    "singular",
    "doc",
    "root",
    "no_spec",
    "derive",
    "attr",
    "schema",
    "annotation",
    "label",
    "validation",
    "storage",
    "served",
    "deprecated",
];

type Metas = Punctuated<Meta, Token![,]>;

/// `#[schema(…)]` on a type.
pub(crate) fn schema(arguments: TokenStream, mut item: DeriveInput) -> syn::Result<TokenStream> {
    let arguments = Arguments::parse(arguments)?;
    if let Some(meta) = arguments.rest.first() {
        let known = [&FIELD_ARGUMENTS[..], &["crate_path"]].concat();
        return Err(unknown_argument(meta, "#[schema(…)]", &known));
    }
    expand_schema(&arguments, &mut item)?;
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
    arguments.check_names(&item)?;
    if !arguments.rest.iter().any(|it| it.path().is_ident("doc"))
        && let Some(documentation) = documentation(&item.attrs)
    {
        arguments.rest.push(syn::parse_quote!(doc = #documentation));
    }
    expand_schema(&arguments, &mut item)?;
    let macro_support = arguments.macro_support();
    let path = |krate: &str| quote!(#macro_support).to_string().replace(' ', "") + "::" + krate;
    let (core, openapi, schemars) = (path("kube_core"), path("k8s_openapi"), path("schemars"));
    let (serde, json, kube) = (path("serde"), path("serde_json"), path("kube_derive"));
    let root_schema = arguments.root_schema(&item)?;
    if root_schema.is_some() {
        arguments.rest.push(syn::parse_quote!(schema = "manual"));
    }
    let rest = &arguments.rest;
    item.attrs.insert(0, syn::parse_quote!(#[derive(#macro_support::kube_derive::CustomResource)]));
    item.attrs.push(syn::parse_quote!(
        #[kube(#rest, crates(kube = #kube, kube_core = #core, k8s_openapi = #openapi,
            schemars = #schemars, serde = #serde, serde_json = #json))]
    ));
    let part_checks = part_checks(&arguments, &item);
    Ok(quote!(#part_checks #item #root_schema))
}

fn expand_schema(arguments: &Arguments, item: &mut DeriveInput) -> syn::Result<()> {
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
    item.attrs.extend(arguments.markers.attribute());
    each_field(&mut item.data, &mut |attributes| {
        let markers = Markers::of_field(attributes)?;
        attributes.extend(markers.attribute());
        Ok(())
    })
}

/// The arguments of an annotation on a type.
struct Arguments {
    markers: Markers,
    /// The rules of the whole object.
    object_markers: Markers,
    crate_path: Path,
    /// The arguments for kube-derive.
    rest: Metas,
}

impl Arguments {
    fn parse(tokens: TokenStream) -> syn::Result<Self> {
        let metas = Metas::parse_terminated.parse2(tokens)?;
        let mut parsed = Self {
            markers: Markers::default(),
            object_markers: Markers::default(),
            crate_path: syn::parse_quote!(::runtime),
            rest: Metas::new(),
        };
        for meta in metas {
            if meta.path().is_ident("crate_path") {
                let value = &meta.require_name_value()?.value;
                parsed.crate_path = syn::parse2(quote!(#value))?;
            } else if meta.path().is_ident("object_rule") {
                parsed.object_markers.take_rule(&meta)?;
            } else if !parsed.markers.take(&meta)? {
                parsed.rest.push(meta);
            }
        }
        Ok(parsed)
    }

    /// Checks the arguments for kube-derive, whose own errors do not say what is known.
    fn check_names(&self, item: &DeriveInput) -> syn::Result<()> {
        for meta in &self.rest {
            if !KUBE_ARGUMENTS.iter().any(|name| meta.path().is_ident(name)) {
                let ours = [&FIELD_ARGUMENTS[..], &["object_rule", "crate_path"]].concat();
                let known = [&KUBE_ARGUMENTS[..], &ours].concat();
                return Err(unknown_argument(meta, "#[resource(…)]", &known));
            }
        }
        for name in ["group", "version", "kind"] {
            if !self.rest.iter().any(|meta| meta.path().is_ident(name)) {
                let message = format!("missing argument `{name} = \"…\"` of #[resource(…)]");
                return Err(syn::Error::new_spanned(&item.ident, message));
            }
        }
        Ok(())
    }

    /// Implements `JsonSchema` for the root object if it has `object_rule`s. kube-derive's own
    /// implementation cannot be used: its expansion names crates that an operator need not depend
    /// on.
    fn root_schema(&self, item: &DeriveInput) -> syn::Result<Option<TokenStream>> {
        let Some(rules) = self.object_markers.attribute() else { return Ok(None) };
        let (macro_support, spec) = (self.macro_support(), &item.ident);
        let schemars = quote!(#macro_support::schemars).to_string().replace(' ', "");
        let documentation = self.text("doc").map(|text| quote!(#[doc = #text]));
        let Some(kind) = self.text("root").or_else(|| self.text("kind")) else {
            return Err(syn::Error::new_spanned(spec, "missing argument `kind = \"…\"`"));
        };
        let status: Option<Path> = self.text("status").map(|it| it.parse()).transpose()?;
        let status = status.map(|status| quote!(status: ::core::option::Option<#status>));
        let root: Ident = kind.parse()?;
        Ok(Some(quote! {
            impl #macro_support::schemars::JsonSchema for #root {
                fn schema_name() -> ::std::borrow::Cow<'static, str> {
                    ::std::borrow::Cow::Borrowed(#kind)
                }

                fn json_schema(
                    generator: &mut #macro_support::schemars::SchemaGenerator,
                ) -> #macro_support::schemars::Schema {
                    #documentation
                    #[derive(#macro_support::schemars::JsonSchema)]
                    #[schemars(crate = #schemars)]
                    #rules
                    #[allow(dead_code, reason = "only its schema is used")]
                    struct Root {
                        spec: #spec,
                        #status
                    }
                    <Root as #macro_support::schemars::JsonSchema>::json_schema(generator)
                }
            }
        }))
    }

    /// The value of `name = "value"` among the arguments for kube-derive.
    fn text(&self, name: &str) -> Option<LitStr> {
        let meta = self.rest.iter().find(|it| it.path().is_ident(name))?;
        match &meta.require_name_value().ok()?.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.clone()),
            _ => None,
        }
    }

    /// The module of `sampan-runtime` with the items that expansions use.
    fn macro_support(&self) -> Path {
        let crate_path = &self.crate_path;
        syn::parse_quote!(#crate_path::macro_support)
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
    let own = ["skip", "with", "schema_with", "skip_serializing", "skip_deserializing"];
    let relevant = attributes
        .iter()
        .filter(|it| it.path().is_ident("serde") || it.path().is_ident("schemars"));
    let mut metas =
        relevant.filter_map(|it| it.parse_args_with(Metas::parse_terminated).ok()).flatten();
    metas.any(|meta| own.iter().any(|name| meta.path().is_ident(name)))
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
        let root = "structRoot{spec:SiteSpec,status:::core::option::Option<super::Status>}";
        assert!(expanded.contains(root), "{expanded}");
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
                     embedded_resource, int_or_string, crate_path";
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
