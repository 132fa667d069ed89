//! The messages of a document of version 2: the field of each keyword.

/// The fields of a message.
pub(super) struct MessageShape {
    /// The keyword, the field number and the encoding of each field, sorted by number.
    pub fields: &'static [(&'static str, u32, Encoding)],
    /// The number of the field `vendor_extension`.
    pub extensions: u32,
}

/// The encoding of a keyword's value. Shapes are functions because they refer to each other.
pub(super) enum Encoding {
    Text,
    Texts,
    Bool,
    Int,
    Double,
    /// Any value, as YAML.
    Any,
    Anys,
    One(fn() -> &'static MessageShape),
    /// A map, encoded as a message with one field per entry. The arguments are the number of that
    /// field, the numbers of the fields that wrap the value, and the shape of the value. An entry
    /// is a message with the name in field 1 and the value in field 2.
    Named(u32, &'static [u32], fn() -> &'static MessageShape),
    /// A string or a list of strings, in field 1 of a separate message.
    Type,
    /// A message that is wrapped into others, in the fields of these numbers.
    Wrapped(&'static [u32], fn() -> &'static MessageShape),
    /// A message with a schema in field 1 or a boolean in field 2.
    SchemaOrBool,
    /// A list of parameters, whose shapes depend on their keyword `in`.
    Parameters,
}

use Encoding::{
    Any, Anys, Bool, Double, Int, Named, One, Parameters, SchemaOrBool, Text, Texts, Type, Wrapped,
};

pub(super) static DOCUMENT: MessageShape = MessageShape {
    fields: &[
        ("swagger", 1, Text),
        ("info", 2, One(|| &INFO)),
        ("paths", 8, Named(2, &[], || &PATH_ITEM)),
        ("definitions", 9, Named(1, &[], schema)),
    ],
    extensions: 16,
};

static INFO: MessageShape =
    MessageShape { fields: &[("title", 1, Text), ("version", 2, Text)], extensions: 7 };

static PATH_ITEM: MessageShape = MessageShape {
    fields: &[
        ("get", 2, One(|| &OPERATION)),
        ("put", 3, One(|| &OPERATION)),
        ("post", 4, One(|| &OPERATION)),
        ("delete", 5, One(|| &OPERATION)),
        ("patch", 8, One(|| &OPERATION)),
        ("parameters", 9, Parameters),
    ],
    extensions: 10,
};

static OPERATION: MessageShape = MessageShape {
    fields: &[
        ("tags", 1, Texts),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Texts),
        ("consumes", 7, Texts),
        ("parameters", 8, Parameters),
        ("responses", 9, Named(1, &[1], || &RESPONSE)),
        ("schemes", 10, Texts),
    ],
    extensions: 13,
};

static RESPONSE: MessageShape = MessageShape {
    fields: &[("description", 1, Text), ("schema", 2, Wrapped(&[1], schema))],
    extensions: 5,
};

pub(super) static BODY_PARAMETER: MessageShape = MessageShape {
    fields: &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Bool),
        ("schema", 5, One(schema)),
    ],
    extensions: 6,
};

pub(super) static QUERY_PARAMETER: MessageShape = MessageShape {
    fields: &[
        ("required", 1, Bool),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("uniqueItems", 20, Bool),
    ],
    extensions: 23,
};

pub(super) static PATH_PARAMETER: MessageShape = MessageShape {
    fields: &[
        ("required", 1, Bool),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("uniqueItems", 19, Bool),
    ],
    extensions: 22,
};

static SCHEMA: MessageShape = MessageShape {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Bool),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Bool),
        ("maxLength", 11, Int),
        ("minLength", 12, Int),
        ("pattern", 13, Text),
        ("maxItems", 14, Int),
        ("minItems", 15, Int),
        ("uniqueItems", 16, Bool),
        ("maxProperties", 17, Int),
        ("minProperties", 18, Int),
        ("required", 19, Texts),
        ("enum", 20, Anys),
        ("additionalProperties", 21, SchemaOrBool),
        ("type", 22, Type),
        ("items", 23, Wrapped(&[1], schema)),
        ("properties", 25, Named(1, &[], schema)),
        ("externalDocs", 29, One(|| &EXTERNAL_DOCS)),
        ("example", 30, Any),
    ],
    extensions: 31,
};

static EXTERNAL_DOCS: MessageShape =
    MessageShape { fields: &[("description", 1, Text), ("url", 2, Text)], extensions: 3 };

pub(super) fn schema() -> &'static MessageShape {
    &SCHEMA
}
