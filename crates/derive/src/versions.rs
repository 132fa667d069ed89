//! `#[derive(Versions)]`: one CRD for the versions of a kind, and conversions through the stored
//! version.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Fields, Path, Type};

/// The implementation of `runtime::versions::Versions`.
pub(crate) fn versions(item: &DeriveInput) -> syn::Result<TokenStream> {
    let Data::Enum(data) = &item.data else {
        return Err(syn::Error::new_spanned(&item.ident, "an enum holds one version per variant"));
    };
    let mut types: Vec<&Type> = Vec::new();
    let mut stored: Option<&Type> = None;
    for variant in &data.variants {
        let Fields::Unnamed(fields) = &variant.fields else {
            return Err(syn::Error::new_spanned(variant, "a variant holds the type of a version"));
        };
        let [field] = fields.unnamed.iter().collect::<Vec<_>>()[..] else {
            return Err(syn::Error::new_spanned(variant, "a variant holds one version"));
        };
        if Marks::parse(&variant.attrs)?.storage && stored.replace(&field.ty).is_some() {
            return Err(syn::Error::new_spanned(variant, "another version is stored already"));
        }
        types.push(&field.ty);
    }
    let Some(stored) = stored else {
        let message = "mark the version that is stored with #[versions(storage)]";
        return Err(syn::Error::new_spanned(&item.ident, message));
    };
    let runtime = Marks::parse(&item.attrs)?.crate_path;
    let macro_support = quote!(#runtime::macro_support);
    let ident = &item.ident;
    let (generics, parameters, bounds) = item.generics.split_for_impl();
    Ok(quote! {
        impl #generics #runtime::versions::Versions for #ident #parameters #bounds {
            type Stored = #stored;

            fn definitions() -> ::std::vec::Vec<#runtime::versions::CustomResourceDefinition> {
                ::std::vec![#(<#types as #macro_support::kube_core::CustomResourceExt>::crd()),*]
            }

            fn convert(
                object: #macro_support::serde_json::Value,
                desired: &str,
            ) -> ::core::result::Result<#macro_support::serde_json::Value, #runtime::versions::ConversionError>
            {
                let sent = #runtime::versions::api_version(&object)?;
                if sent == desired {
                    return ::core::result::Result::Ok(object);
                }
                let stored: #stored = #(
                    if sent == <#types as #macro_support::kube_core::Resource>::api_version(&()) {
                        #runtime::versions::decode::<#types, #stored>(object)?
                    } else
                )* {
                    return ::core::result::Result::Err(
                        #runtime::versions::ConversionError::unknown(&sent),
                    );
                };
                #(
                    if desired == <#types as #macro_support::kube_core::Resource>::api_version(&()) {
                        return #runtime::versions::encode::<#stored, #types>(stored);
                    }
                )*
                ::core::result::Result::Err(
                    #runtime::versions::ConversionError::unknown(desired),
                )
            }
        }
    })
}

/// The arguments of `#[versions(…)]`.
struct Marks {
    storage: bool,
    crate_path: Path,
}

impl Marks {
    fn parse(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut marks = Self { storage: false, crate_path: syn::parse_quote!(::runtime) };
        for attribute in attributes.iter().filter(|it| it.path().is_ident("versions")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("storage") {
                    marks.storage = true;
                    return Ok(());
                }
                if meta.path.is_ident("crate_path") {
                    marks.crate_path = meta.value()?.parse()?;
                    return Ok(());
                }
                Err(meta.error("not known of versions"))
            })?;
        }
        Ok(marks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(item: &DeriveInput) -> String {
        versions(item).unwrap_err().to_string()
    }

    #[test]
    fn one_version_is_stored() {
        let none = syn::parse_quote!(
            enum Site {
                V1(A),
                V2(B),
            }
        );
        assert_eq!(fault(&none), "mark the version that is stored with #[versions(storage)]");
        let two = syn::parse_quote! {
            enum Site { #[versions(storage)] V1(A), #[versions(storage)] V2(B) }
        };
        assert_eq!(fault(&two), "another version is stored already");
    }

    #[test]
    fn a_variant_is_a_version() {
        let bare = syn::parse_quote!(
            enum Site {
                V1,
            }
        );
        assert_eq!(fault(&bare), "a variant holds the type of a version");
        let pair = syn::parse_quote!(
            enum Site {
                V1(A, B),
            }
        );
        assert_eq!(fault(&pair), "a variant holds one version");
        let structure = syn::parse_quote!(
            struct Site {
                a: A,
            }
        );
        assert_eq!(fault(&structure), "an enum holds one version per variant");
    }
}
