//! The Go type of a field, which Go's decoder names in its error about a value of another type.

use super::{Container, Field, Item, Type};

/// The Go type of the whole field, e.g. `[]v1.Container`.
pub(super) fn of_field(owner: &Type, field: &Field) -> String {
    let named = field.go_type();
    if !named.is_empty() {
        return named.to_owned();
    }
    let item = of_item(owner, field.item);
    match field.container {
        Container::One => item,
        Container::List => format!("[]{item}"),
        Container::Map => format!("map[string]{item}"),
    }
}

/// The Go type of one value of a list or a map, e.g. `v1.Container`.
pub(super) fn of_element(owner: &Type, field: &Field) -> String {
    let named = field.go_type();
    let element = match field.container {
        Container::One => Some(named),
        Container::List => named.strip_prefix("[]"),
        Container::Map => {
            named.strip_prefix("map[").and_then(|rest| rest.split_once(']')).map(|it| it.1)
        }
    };
    match element {
        Some(element) if !element.is_empty() => element.to_owned(),
        _ => of_item(owner, field.item),
    }
}

/// The Go type of a message, e.g. `v1.Pod`.
pub(super) fn of_type(ty: &Type) -> String {
    format!("{}.{}", ty.package().version(), ty.short_name())
}

/// The embedded Go structs between a type and a field of its JSON object, the outermost first, e.g.
/// `VolumeSource` between `Volume` and `emptyDir`.
pub(super) fn embedding(owner: &Type, field: &Field) -> Vec<&'static str> {
    if owner.is_kind && field.number == 0 {
        return vec!["TypeMeta"];
    }
    path_to(owner, field).unwrap_or_default()
}

fn path_to(owner: &Type, field: &Field) -> Option<Vec<&'static str>> {
    if owner.wire().iter().any(|own| std::ptr::eq(own, field)) {
        return Some(Vec::new());
    }
    let mut inlined = owner.wire().iter().filter(|own| own.inline).filter_map(Field::message);
    inlined.find_map(|message| {
        let mut path = path_to(message, field)?;
        path.insert(0, message.short_name());
        Some(path)
    })
}

fn of_item(owner: &Type, item: Item) -> String {
    let own = |name: &str| format!("{}.{name}", owner.package().version());
    let name = match item {
        Item::String => "string",
        Item::Int32 => "int32",
        Item::Int64 => "int64",
        Item::Bool => "bool",
        Item::Double => "float64",
        Item::Bytes => "[]uint8",
        Item::Quantity => "resource.Quantity",
        Item::IntOrString => "intstr.IntOrString",
        Item::Time => "v1.Time",
        Item::MicroTime => "v1.MicroTime",
        Item::RawExtension => "runtime.RawExtension",
        Item::FieldsV1 => "v1.FieldsV1",
        Item::Json => return own("JSON"),
        Item::Strings if owner.package().name() == "meta/v1" => "v1.Verbs",
        Item::Strings => return own("ExtraValue"),
        Item::SchemaOrBool => return own("JSONSchemaPropsOrBool"),
        Item::SchemaOrArray => return own("JSONSchemaPropsOrArray"),
        Item::SchemaOrStrings => return own("JSONSchemaPropsOrStringArray"),
        Item::Message(id) => return of_type(id.get()),
    };
    name.to_owned()
}
