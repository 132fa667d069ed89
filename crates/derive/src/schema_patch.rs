//! [`SchemaPatch`]: the keywords of `patch("keyword" = json, …)`, as the text of a JSON object.
//!
//! The text is parsed when the CRD is made: a long value would exceed the recursion limit of `json!`.

use std::fmt::Write;

use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::token::{Brace, Bracket};
use syn::{Ident, Lit, LitBool, LitStr, Meta, Token, braced, bracketed};

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct SchemaPatch {
    /// Keywords and the JSON of their values.
    keywords: Vec<(String, String)>,
}

impl Parse for SchemaPatch {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut patch = Self::default();
        while !input.is_empty() {
            let keyword: LitStr = input.parse()?;
            input.parse::<Token![=]>()?;
            let mut value = String::new();
            write_json(input, &mut value)?;
            patch.add(&keyword, value)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(patch)
    }
}

impl SchemaPatch {
    fn add(&mut self, keyword: &LitStr, value: String) -> syn::Result<()> {
        if self.keywords.iter().any(|(other, _)| *other == keyword.value()) {
            let message = format!("{} is set twice", keyword.value());
            return Err(syn::Error::new(keyword.span(), message));
        }
        self.keywords.push((keyword.value(), value));
        Ok(())
    }

    /// Adds the keywords of another patch, which stands at `meta`.
    pub(crate) fn extend(&mut self, other: Self, meta: &Meta) -> syn::Result<()> {
        for (keyword, value) in other.keywords {
            if self.keywords.iter().any(|(present, _)| *present == keyword) {
                return Err(syn::Error::new_spanned(meta, format!("{keyword} is set twice")));
            }
            self.keywords.push((keyword, value));
        }
        Ok(())
    }

    /// The JSON object, unless it is empty.
    pub(crate) fn json(&self) -> Option<String> {
        let entry = |(keyword, value): &(String, String)| {
            let mut text = String::new();
            write_string(keyword, &mut text);
            text + ":" + value
        };
        let entries: Vec<String> = self.keywords.iter().map(entry).collect();
        (!entries.is_empty()).then(|| format!("{{{}}}", entries.join(",")))
    }
}

/// Writes the JSON value at the beginning of the tokens.
fn write_json(input: ParseStream<'_>, text: &mut String) -> syn::Result<()> {
    if input.peek(Brace) {
        let content;
        braced!(content in input);
        return write_object(&content, text);
    }
    if input.peek(Bracket) {
        let content;
        bracketed!(content in input);
        return write_list(&content, text);
    }
    if input.peek(LitBool) {
        text.push_str(if input.parse::<LitBool>()?.value { "true" } else { "false" });
        return Ok(());
    }
    if input.peek(Ident::peek_any) {
        let word: Ident = input.call(Ident::parse_any)?;
        if word != "null" {
            return Err(syn::Error::new(word.span(), "expected a JSON value"));
        }
        text.push_str("null");
        return Ok(());
    }
    if input.peek(Token![-]) {
        input.parse::<Token![-]>()?;
        text.push('-');
    }
    match input.parse()? {
        Lit::Str(string) => write_string(&string.value(), text),
        Lit::Int(number) => text.push_str(number.base10_digits()),
        Lit::Float(number) => {
            let digits = number.base10_digits();
            text.push_str(digits);
            if digits.ends_with('.') {
                text.push('0');
            }
        }
        other => return Err(syn::Error::new(other.span(), "expected a JSON value")),
    }
    Ok(())
}

fn write_object(content: ParseStream<'_>, text: &mut String) -> syn::Result<()> {
    text.push('{');
    while !content.is_empty() {
        let name: LitStr = content.parse()?;
        content.parse::<Token![:]>()?;
        write_string(&name.value(), text);
        text.push(':');
        write_json(content, text)?;
        write_separator(content, text)?;
    }
    text.push('}');
    Ok(())
}

fn write_list(content: ParseStream<'_>, text: &mut String) -> syn::Result<()> {
    text.push('[');
    while !content.is_empty() {
        write_json(content, text)?;
        write_separator(content, text)?;
    }
    text.push(']');
    Ok(())
}

/// Writes a comma if another value follows.
fn write_separator(content: ParseStream<'_>, text: &mut String) -> syn::Result<()> {
    if !content.is_empty() {
        content.parse::<Token![,]>()?;
        if !content.is_empty() {
            text.push(',');
        }
    }
    Ok(())
}

fn write_string(string: &str, text: &mut String) {
    text.push('"');
    for letter in string.chars() {
        match letter {
            '"' | '\\' => {
                text.push('\\');
                text.push(letter);
            }
            _ if letter.is_control() => {
                let _ = write!(text, "\\u{:04x}", u32::from(letter)); // a String accepts everything
            }
            _ => text.push(letter),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use quote::quote;

    use super::*;

    fn json(tokens: TokenStream) -> String {
        match syn::parse2::<SchemaPatch>(tokens) {
            Ok(patch) => patch.json().unwrap_or_default(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_patch_is_json() {
        let tokens = quote!(
            "items" = {"enum": ["a\"\\\n", null, true,], "maxLength": 1_000_i64},
            "minimum" = -1.5,
        );
        let text =
            r#"{"items":{"enum":["a\"\\\u000a",null,true],"maxLength":1000},"minimum":-1.5}"#;
        assert_eq!(json(tokens), text);
        assert_eq!(json(quote!()), "");
    }

    #[test]
    fn errors_name_the_mistake() {
        assert_eq!(json(quote!("a" = 1, "a" = 2)), "a is set twice");
        assert_eq!(json(quote!("a" = b)), "expected a JSON value");
        assert_eq!(json(quote!("a" = 'b')), "expected a JSON value");
        assert_eq!(json(quote!("a")), "expected `=`");
    }
}
