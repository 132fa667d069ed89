//! [`ObjectOptions`]: the arguments of `#[resource(…)]` about the whole object that kube-derive does not
//! have: `optional_spec` and `status_subresource`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DeriveInput, Ident, Lit, Meta, Path};

/// The names of the arguments, for messages.
pub(crate) const OBJECT_ARGUMENTS: [&str; 2] = ["optional_spec", "status_subresource"];

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct ObjectOptions {
    pub(crate) optional_spec: bool,
    /// Whether the CRD has the subresource; by default, if the kind has a status.
    pub(crate) status_subresource: Option<bool>,
}

impl ObjectOptions {
    /// Adds `meta` if it is one of these arguments, and returns whether it is one.
    pub(crate) fn take(&mut self, meta: &Meta) -> syn::Result<bool> {
        if meta.path().is_ident("optional_spec") {
            meta.require_path_only()?;
            self.optional_spec = true;
        } else if meta.path().is_ident("status_subresource") {
            self.status_subresource = Some(boolean(meta)?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// The struct that kube-derive takes for the spec if an object need not have one. Its field is
    /// flattened.
    pub(crate) fn optional_spec(spec: &DeriveInput, derived: &[String]) -> DeriveInput {
        let (visibility, ident) = (&spec.vis, &spec.ident);
        let name = optional_name(ident);
        let known = ["PartialEq", "Eq", "Hash"].map(|it| format_ident!("{it}"));
        let derived = known.iter().filter(|it| derived.iter().any(|name| *it == name));
        syn::parse_quote! {
            /// The spec, if the object has one.
            #[derive(Default, #(#derived),*)]
            #visibility struct #name {
                /// The spec, if the object has one.
                #[serde(skip_serializing_if = "::core::option::Option::is_none")]
                #visibility spec: ::core::option::Option<#ident>,
            }
        }
    }

    /// The conversions of that struct.
    pub(crate) fn optional_spec_traits(spec: &Ident) -> TokenStream {
        let name = optional_name(spec);
        quote! {
            impl ::core::ops::Deref for #name {
                type Target = ::core::option::Option<#spec>;

                fn deref(&self) -> &Self::Target {
                    &self.spec
                }
            }

            impl ::core::ops::DerefMut for #name {
                fn deref_mut(&mut self) -> &mut Self::Target {
                    &mut self.spec
                }
            }

            impl ::core::convert::From<#spec> for #name {
                fn from(spec: #spec) -> Self {
                    Self { spec: ::core::option::Option::Some(spec) }
                }
            }
        }
    }

    /// The module of the traits that kube-derive implements. If the CRD is changed, it is one whose
    /// `CustomResourceExt` only serves [`crd`](Self::crd).
    pub(crate) fn core_module(&self) -> &'static str {
        if self.status_subresource.is_some() { "draft_kube_core" } else { "kube_core" }
    }

    /// `CustomResourceExt` with the changed CRD, unless kube-derive has implemented it.
    pub(crate) fn crd(&self, root: &Ident, macro_support: &Path) -> Option<TokenStream> {
        let has_status = self.status_subresource?;
        let draft = quote!(<#root as #macro_support::draft_kube_core::crd::v1::CustomResourceExt>);
        Some(quote! {
            impl #macro_support::kube_core::CustomResourceExt for #root {
                fn crd() -> #macro_support::CustomResourceDefinition {
                    #macro_support::with_status_subresource(#draft::crd(), #has_status)
                }

                fn crd_name() -> &'static str {
                    #draft::crd_name()
                }

                fn api_resource() -> #macro_support::kube_core::ApiResource {
                    #draft::api_resource()
                }

                fn shortnames() -> &'static [&'static str] {
                    #draft::shortnames()
                }
            }
        })
    }
}

/// The name of the struct with the optional spec.
fn optional_name(spec: &Ident) -> Ident {
    format_ident!("Optional{spec}")
}

/// The value of `name = true` or `name = false`.
pub(crate) fn boolean(meta: &Meta) -> syn::Result<bool> {
    let value = &meta.require_name_value()?.value;
    match value {
        syn::Expr::Lit(syn::ExprLit { lit: Lit::Bool(value), .. }) => Ok(value.value),
        other => Err(syn::Error::new_spanned(other, "must be true or false")),
    }
}
