//! [`Descriptions`]: the descriptions of the built-in types and their fields.
//!
//! The texts are in the binary in compressed form, one piece per package, see
//! `build/descriptions.rs`. A document needs those of a few packages, so they are unpacked on
//! demand and dropped when the document is complete.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;

use crate::Type;

include!(concat!(env!("OUT_DIR"), "/descriptions.rs"));

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Descriptions {
    /// Of the fields that every kind has.
    pub every_kind: schema::openapi::Descriptions,
    /// By package.
    unpacked: HashMap<String, Package>,
}

/// The texts of one package.
#[derive(Debug, Default)]
struct Package {
    text: String,
    /// By type: where its texts are in `text`, those of its fields by name.
    types: HashMap<String, Texts>,
}

/// (start, end)
type Span = (usize, usize);

#[derive(Debug, Default)]
struct Texts {
    own: Span,
    fields: HashMap<String, Span>,
}

impl Descriptions {
    pub(super) fn new() -> Self {
        let mut descriptions =
            Self { every_kind: schema::openapi::Descriptions::default(), unpacked: HashMap::new() };
        // Two types whose common fields have the descriptions of those of all kinds.
        let status = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
        let class = "io.k8s.api.scheduling.v1.PriorityClass";
        let mut take =
            |name, field| descriptions.find(name, field).map(|it| Cow::Owned(it.to_owned()));
        let api_version = take(status, "apiVersion");
        let kind = take(status, "kind");
        let list_metadata = take(status, "metadata");
        let metadata = take(class, "metadata");
        let common = &mut descriptions.every_kind;
        for (target, text) in [
            (
                &mut common.embedded_api_version,
                with_link_of(EMBEDDED_API_VERSION, api_version.as_deref()),
            ),
            (&mut common.api_version, api_version),
            (&mut common.embedded_kind, with_link_of(EMBEDDED_KIND, kind.as_deref())),
            (&mut common.kind, kind),
            (&mut common.list_metadata, list_metadata),
            (&mut common.metadata, metadata),
        ] {
            *target = text.unwrap_or_else(|| target.clone());
        }
        descriptions
    }

    /// The description of a type, by its OpenAPI name.
    pub(super) fn of_type(&mut self, name: &str) -> Option<&str> {
        let (package, short) = self.package(name)?;
        package.get(package.types.get(short)?.own)
    }

    /// The description of a field of a type, whose OpenAPI name is `name`.
    pub(super) fn of_field(&mut self, ty: &Type, name: &str, field: &str) -> Option<Cow<'_, str>> {
        // The fields of all lists have the same descriptions.
        if let Some(item) = kind_of_list(ty) {
            return Some(match field {
                "apiVersion" => self.every_kind.api_version.as_ref().into(),
                "kind" => self.every_kind.kind.as_ref().into(),
                "metadata" => self.every_kind.list_metadata.as_ref().into(),
                _ => format!("List of {}", plural(item)).into(),
            });
        }
        self.find(name, field).map(Cow::Borrowed)
    }

    fn find(&mut self, name: &str, field: &str) -> Option<&str> {
        let (package, short) = self.package(name)?;
        package.get(*package.types.get(short)?.fields.get(field)?)
    }

    fn package<'a>(&mut self, name: &'a str) -> Option<(&Package, &'a str)> {
        let (package, short) = name.rsplit_once('.')?;
        if !self.unpacked.contains_key(package) {
            self.unpacked.insert(package.to_owned(), unpack(package));
        }
        Some((&self.unpacked[package], short))
    }
}

/// The plural of a kind: `Ingress` to `ingresses`.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(rest) if !rest.ends_with(['a', 'e', 'o']) => format!("{rest}ies"),
        _ if kind == "endpoints" => kind,
        _ if kind.ends_with(['s', 'x']) => kind + "es",
        _ => kind + "s",
    }
}

/// The descriptions of `apiVersion` and `kind` in an embedded resource: shorter than elsewhere, but
/// with the same link.
// Upstream: apiextensions-apiserver/pkg/controller/openapi/builder addEmbeddedProperties
const EMBEDDED_API_VERSION: &str =
    "apiVersion defines the versioned schema of this representation of an object.";
const EMBEDDED_KIND: &str =
    "kind is a string value representing the type of this object. In CamelCase.";

/// `text` with the link at the end of `other`.
fn with_link_of(text: &str, other: Option<&str>) -> Option<Cow<'static, str>> {
    let (_, link) = other?.rsplit_once(" More info: ")?;
    Some(format!("{text} More info: {link}").into())
}

/// The kind of which `ty` is a list.
pub(super) fn kind_of_list(ty: &Type) -> Option<&'static str> {
    let item = ty.field("items").filter(|_| ty.is_kind)?.message()?;
    Some(item.short_name()).filter(|item| ty.short_name() == format!("{item}List"))
}

impl Package {
    fn get(&self, (from, to): Span) -> Option<&str> {
        Some(&self.text[from..to]).filter(|text| !text.is_empty())
    }
}

fn unpack(package: &str) -> Package {
    let Ok(at) = PACKAGES.binary_search_by_key(&package, |(name, _)| name) else {
        return Package::default();
    };
    let mut text = String::new();
    flate2::read::DeflateDecoder::new(PACKAGES[at].1)
        .read_to_string(&mut text)
        .expect("the build script deflated text");
    let span = |piece: &str| {
        let from = piece.as_ptr() as usize - text.as_ptr() as usize;
        (from, from + piece.len())
    };
    let mut types = HashMap::new();
    for ty in text.split('\x01').skip(1) {
        let mut pieces = ty.split('\0');
        let name = pieces.next().unwrap_or_default();
        let mut texts =
            Texts { own: pieces.next().map(span).unwrap_or_default(), ..Texts::default() };
        while let (Some(field), Some(piece)) = (pieces.next(), pieces.next()) {
            texts.fields.insert(field.to_owned(), span(piece));
        }
        types.insert(name.to_owned(), texts);
    }
    Package { text, types }
}
