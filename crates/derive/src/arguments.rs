//! [`Arguments`]: the arguments of `#[resource(…)]` and `#[schema(…)]` on a type.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{DeriveInput, Expr, ExprLit, Ident, Lit, LitStr, Meta, Path, Token};

use crate::markers::{FIELD_ARGUMENTS, Markers, TYPE_PATCH, unknown_argument};
use crate::object_options::{OBJECT_ARGUMENTS, ObjectOptions, boolean};

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

pub(crate) type Metas = Punctuated<Meta, Token![,]>;

/// The arguments of an annotation on a type.
pub(crate) struct Arguments {
    pub(crate) markers: Markers,
    /// The rules and the patch of the whole object.
    object_markers: Markers,
    /// Whether optional fields accept null.
    pub(crate) nullable: bool,
    crate_path: Path,
    /// The arguments for kube-derive.
    pub(crate) rest: Metas,
}

impl Arguments {
    pub(crate) fn parse(tokens: TokenStream) -> syn::Result<Self> {
        let metas = Metas::parse_terminated.parse2(tokens)?;
        let mut parsed = Self {
            markers: Markers::default(),
            object_markers: Markers::default(),
            nullable: true,
            crate_path: syn::parse_quote!(::runtime),
            rest: Metas::new(),
        };
        for meta in metas {
            if meta.path().is_ident("crate_path") {
                let value = &meta.require_name_value()?.value;
                parsed.crate_path = syn::parse2(quote!(#value))?;
            } else if meta.path().is_ident("object_rule") {
                parsed.object_markers.take_rule(&meta)?;
            } else if meta.path().is_ident("object_patch") {
                parsed.object_markers.take_patch(&meta)?;
            } else if meta.path().is_ident("nullable") {
                parsed.nullable = boolean(&meta)?;
            } else if !parsed.markers.take(&meta)? {
                parsed.rest.push(meta);
            }
        }
        Ok(parsed)
    }

    /// Takes the arguments about the whole object out of those for kube-derive.
    pub(crate) fn take_object_options(&mut self) -> syn::Result<ObjectOptions> {
        let mut options = ObjectOptions::default();
        let mut rest = Metas::new();
        for meta in std::mem::take(&mut self.rest) {
            if !options.take(&meta)? {
                rest.push(meta);
            }
        }
        self.rest = rest;
        Ok(options)
    }

    /// Checks the arguments for kube-derive, whose own errors do not say what is known.
    pub(crate) fn check_names(&self, item: &DeriveInput) -> syn::Result<()> {
        for meta in &self.rest {
            if !KUBE_ARGUMENTS.iter().any(|name| meta.path().is_ident(name)) {
                let ours = ["object_rule", "object_patch", "nullable", "crate_path"];
                let known =
                    [&KUBE_ARGUMENTS[..], &FIELD_ARGUMENTS, &OBJECT_ARGUMENTS, &ours].concat();
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

    /// Implements `JsonSchema` for the root object if it has rules or a patch of its own. kube-derive's
    /// own implementation cannot be used: its expansion names crates that an operator need not depend
    /// on.
    pub(crate) fn root_schema(&self, item: &DeriveInput) -> syn::Result<Option<TokenStream>> {
        let Some(markers) = self.object_markers.attribute(TYPE_PATCH) else { return Ok(None) };
        let (macro_support, spec) = (self.macro_support(), &item.ident);
        let schemars = quote!(#macro_support::schemars).to_string().replace(' ', "");
        let documentation = self.text("doc").map(|text| quote!(#[doc = #text]));
        let status: Option<Path> = self.text("status").map(|it| it.parse()).transpose()?;
        let status = status.map(|status| quote!(status: ::core::option::Option<#status>,));
        let is_flat = self.rest.iter().any(|it| it.path().is_ident("no_spec"));
        let flatten = is_flat.then(|| quote!(#[schemars(flatten)]));
        let root = self.root(spec)?;
        Ok(Some(quote! {
            impl #macro_support::schemars::JsonSchema for #root {
                fn schema_name() -> ::std::borrow::Cow<'static, str> {
                    ::std::borrow::Cow::Borrowed(::core::stringify!(#root))
                }

                fn json_schema(
                    generator: &mut #macro_support::schemars::SchemaGenerator,
                ) -> #macro_support::schemars::Schema {
                    #documentation
                    #[derive(#macro_support::schemars::JsonSchema)]
                    #[schemars(crate = #schemars)]
                    #markers
                    #[allow(dead_code, reason = "only its schema is used")]
                    struct Root {
                        #flatten
                        spec: #spec,
                        #status
                    }
                    <Root as #macro_support::schemars::JsonSchema>::json_schema(generator)
                }
            }
        }))
    }

    /// The name of the type of the whole object.
    pub(crate) fn root(&self, spec: &Ident) -> syn::Result<Ident> {
        let Some(kind) = self.text("root").or_else(|| self.text("kind")) else {
            return Err(syn::Error::new_spanned(spec, "missing argument `kind = \"…\"`"));
        };
        kind.parse()
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
    pub(crate) fn macro_support(&self) -> Path {
        let crate_path = &self.crate_path;
        syn::parse_quote!(#crate_path::macro_support)
    }
}
