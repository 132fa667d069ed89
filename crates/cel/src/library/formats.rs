//! Kubernetes' format library: `format.named('dns1123Label').value().validate(x)`.

use std::any::Any;
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;

use super::{Library, Plain, no_such_overload, urls};
use crate::time::Timestamp;
use crate::value::{Opaque, Value};

const NAME: &str = "kubernetes.NamedFormat";

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

const LABEL_ERROR: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
    characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
    '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_ERROR: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
    alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
    (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035_ERROR: &str = "a DNS-1035 label must consist of lower case alphanumeric characters \
    or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. \
    'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_ERROR: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
    '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_ERROR: &str = "a valid label must be an empty string or consist of alphanumeric \
    characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
    'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

type Validate = fn(&str) -> Vec<String>;

/// A format: its name in expressions, the length of its pattern for the cost, and its validation.
type Definition = (&'static str, u64, Validate);

const FORMATS: &[Definition] = &[
    ("dns1123Label", 30, label),
    ("dns1123LabelPrefix", 30, |text| label(&mask_trailing_dash(text))),
    ("dns1123Subdomain", 60, subdomain),
    ("dns1123SubdomainPrefix", 60, |text| subdomain(&mask_trailing_dash(text))),
    ("dns1035Label", 30, label_1035),
    ("dns1035LabelPrefix", 30, |text| label_1035(&mask_trailing_dash(text))),
    ("qualifiedName", 60, qualified),
    ("labelValue", 40, label_value),
    ("uri", 1_103, |text| urls::request_uri_error(text).into_iter().collect()),
    ("uuid", 54, |text| error_if(!is_uuid(text), "does not match the UUID format")),
    ("byte", 84, |text| {
        error_if(STANDARD.decode(text).is_err() || text.is_empty(), "invalid base64")
    }),
    ("date", 111, |text| error_if(Timestamp::parse_date(text).is_none(), "invalid date")),
    ("datetime", 111, |text| error_if(Timestamp::parse(text).is_none(), "invalid datetime")),
];

/// A named format.
#[derive(Debug)]
pub(crate) struct Format(&'static Definition);

impl Format {
    /// The length of the pattern for the cost.
    pub(crate) fn regex_size(&self) -> u64 {
        self.0.1
    }
}

impl Opaque for Format {
    fn type_name(&self) -> &'static str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self.0.0 == other.0.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The functions `format.dns1123Label()` and similar. A function pointer cannot capture the index,
/// so each format has its own function.
macro_rules! constants {
    ($($function:literal => $index:literal),* $(,)?) => {
        &[$(($function, |_| Ok(Value::opaque(Format(&FORMATS[$index]))))),*]
    };
}

const CONSTANTS: &[(&str, Plain)] = constants! {
    "format.dns1123Label" => 0,
    "format.dns1123LabelPrefix" => 1,
    "format.dns1123Subdomain" => 2,
    "format.dns1123SubdomainPrefix" => 3,
    "format.dns1035Label" => 4,
    "format.dns1035LabelPrefix" => 5,
    "format.qualifiedName" => 6,
    "format.labelValue" => 7,
    "format.uri" => 8,
    "format.uuid" => 9,
    "format.byte" => 10,
    "format.date" => 11,
    "format.datetime" => 12,
};

pub(super) fn declare(library: &mut Library) {
    library.add_type(NAME);
    for (function, run) in CONSTANTS {
        library.add(function, function, "() -> kubernetes.NamedFormat", *run);
    }
    let declared = "(string) -> optional(kubernetes.NamedFormat)";
    library.add("format.named", "format-named", declared, |args| match args {
        [Value::String(name)] => Ok(match FORMATS.iter().find(|(own, ..)| *own == &**name) {
            Some(definition) => Value::some(Value::opaque(Format(definition))),
            None => Value::Optional(None),
        }),
        _ => no_such_overload(),
    });
    let declared = "kubernetes.NamedFormat.(string) -> optional(list(string))";
    library.add("validate", "format-validate", declared, |args| {
        let [format, Value::String(text)] = args else {
            return no_such_overload();
        };
        let Some(Format((_, _, validate))) = format.downcast() else {
            return no_such_overload();
        };
        let errors = validate(text);
        Ok(if errors.is_empty() {
            Value::Optional(None)
        } else {
            Value::some(Value::list(errors.into_iter().map(Value::string).collect()))
        })
    });
}

fn error_if(wrong: bool, message: &str) -> Vec<String> {
    wrong.then(|| message.to_owned()).into_iter().collect()
}

/// Replaces a final dash, which is valid in a name to which a suffix will be appended. As
/// upstream's `maskTrailingDash`, also drops the character before the dash.
fn mask_trailing_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(head) if !head.is_empty() => {
            let mut masked = head.to_owned();
            masked.pop();
            masked.push('a');
            masked
        }
        _ => text.to_owned(),
    }
}

/// The errors of a text that must match a pattern completely and have at most `max` bytes.
fn patterned(
    cell: &'static OnceLock<Option<Regex>>,
    pattern: &str,
    max: usize,
    text: &str,
    message: &str,
) -> Vec<String> {
    let regex = cell.get_or_init(|| Regex::new(&format!("^(?:{pattern})$")).ok());
    let mut errors = error_if(text.len() > max, &format!("must be no more than {max} characters"));
    let matches = regex.as_ref().is_some_and(|regex| regex.is_match(text));
    errors.extend(error_if(!matches, message));
    errors
}

fn label(text: &str) -> Vec<String> {
    static REGEX: OnceLock<Option<Regex>> = OnceLock::new();
    patterned(&REGEX, LABEL, 63, text, LABEL_ERROR)
}

fn subdomain(text: &str) -> Vec<String> {
    static REGEX: OnceLock<Option<Regex>> = OnceLock::new();
    patterned(&REGEX, SUBDOMAIN, 253, text, SUBDOMAIN_ERROR)
}

fn label_1035(text: &str) -> Vec<String> {
    static REGEX: OnceLock<Option<Regex>> = OnceLock::new();
    patterned(&REGEX, LABEL_1035, 63, text, LABEL_1035_ERROR)
}

fn label_value(text: &str) -> Vec<String> {
    static REGEX: OnceLock<Option<Regex>> = OnceLock::new();
    patterned(&REGEX, LABEL_VALUE, 63, text, LABEL_VALUE_ERROR)
}

fn qualified(text: &str) -> Vec<String> {
    static REGEX: OnceLock<Option<Regex>> = OnceLock::new();
    let parts: Vec<&str> = text.split('/').collect();
    let (mut errors, name) = match parts.as_slice() {
        [name] => (Vec::new(), *name),
        ["", name] => (vec!["prefix part must be non-empty".to_owned()], *name),
        [prefix, name] => {
            let errors = subdomain(prefix).into_iter().map(|error| format!("prefix part {error}"));
            (errors.collect(), *name)
        }
        _ => {
            let rule = QUALIFIED_ERROR.trim_start_matches("name part must");
            return vec![format!(
                "a qualified name must{rule} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 characters".to_owned());
    }
    errors.extend(patterned(&REGEX, QUALIFIED, usize::MAX, name, QUALIFIED_ERROR));
    errors
}

fn is_uuid(text: &str) -> bool {
    let digits: String = text.chars().filter(|it| *it != '-').collect();
    let dashes: Vec<usize> = text.match_indices('-').map(|(at, _)| at).collect();
    let placed = dashes.is_empty() || dashes == [8, 13, 18, 23];
    placed && digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}
