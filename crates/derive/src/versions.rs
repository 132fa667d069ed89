//! `#[derive(Versions)]`: one CRD for the versions of a kind, and conversions through the stored
//! version.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Fields, Path, Type};

/// The implementation of `runtime::versions::Versions`.
pub(crate) fn versions(item: &DeriveInput) -> syn::Result<TokenStream> {
    let Data::Enum(data) = &item.data else {
        return Err(syn::Error::new_spanned(
            &item.ident,
            "`Versions` can only be derived for an enum",
        ));
    };
    let mut types: Vec<&Type> = Vec::new();
    let mut stored: Option<&Type> = None;
    for variant in &data.variants {
        let Fields::Unnamed(fields) = &variant.fields else {
            return Err(syn::Error::new_spanned(
                variant,
                "a variant must have one unnamed field, the type of the version",
            ));
        };
        let [field] = fields.unnamed.iter().collect::<Vec<_>>()[..] else {
            return Err(syn::Error::new_spanned(
                variant,
                "a variant must have one unnamed field, the type of the version",
            ));
        };
        if VersionsArguments::parse(&variant.attrs)?.storage && stored.replace(&field.ty).is_some()
        {
            return Err(syn::Error::new_spanned(
                variant,
                "more than one variant has #[versions(storage)]",
            ));
        }
        types.push(&field.ty);
    }
    let Some(stored) = stored else {
        let message = "one variant must have #[versions(storage)]";
        return Err(syn::Error::new_spanned(&item.ident, message));
    };
    let runtime = VersionsArguments::parse(&item.attrs)?.crate_path;
    let macro_support = quote!(#runtime::macro_support);
    let ident = &item.ident;
    let (generics, parameters, bounds) = item.generics.split_for_impl();
    Ok(quote! {
        impl #generics #runtime::versions::Versions for #ident #parameters #bounds {
            type Stored = #stored;

            fn version_crds() -> ::std::vec::Vec<#runtime::versions::CustomResourceDefinition> {
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
struct VersionsArguments {
    storage: bool,
    crate_path: Path,
}

impl VersionsArguments {
    fn parse(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut arguments = Self { storage: false, crate_path: syn::parse_quote!(::runtime) };
        for attribute in attributes.iter().filter(|it| it.path().is_ident("versions")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("storage") {
                    arguments.storage = true;
                    return Ok(());
                }
                if meta.path.is_ident("crate_path") {
                    arguments.crate_path = meta.value()?.parse()?;
                    return Ok(());
                }
                Err(meta.error("unknown argument of #[versions(…)]"))
            })?;
        }
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile_error(item: &DeriveInput) -> String {
        versions(item).unwrap_err().to_string()
    }

    #[test]
    fn exactly_one_version_must_be_stored() {
        let none = syn::parse_quote!(
            enum Site {
                V1(A),
                V2(B),
            }
        );
        assert_eq!(compile_error(&none), "one variant must have #[versions(storage)]");
        let two = syn::parse_quote! {
            enum Site { #[versions(storage)] V1(A), #[versions(storage)] V2(B) }
        };
        assert_eq!(compile_error(&two), "more than one variant has #[versions(storage)]");
    }

    #[test]
    fn each_variant_must_contain_one_version() {
        let unit = syn::parse_quote!(
            enum Site {
                V1,
            }
        );
        assert_eq!(
            compile_error(&unit),
            "a variant must have one unnamed field, the type of the version"
        );
        let pair = syn::parse_quote!(
            enum Site {
                V1(A, B),
            }
        );
        assert_eq!(
            compile_error(&pair),
            "a variant must have one unnamed field, the type of the version"
        );
        let structure = syn::parse_quote!(
            struct Site {
                a: A,
            }
        );
        assert_eq!(compile_error(&structure), "`Versions` can only be derived for an enum");
    }
}
