//! Turns `tables/*.txt` into the statics behind `src/builtin.rs`: plain numbers, without
//! pointers, so that they cost nothing at start-up and are shared between processes.
//!
//! The table, which `cargo xtask types` writes:
//!
//! ```text
//! = core/v1 v1 io.k8s.api.core.v1             package, apiVersion, prefix of its OpenAPI names
//! Volume                                      a type; `@`: has kind and apiVersion; atomic; union
//!  1 name string a!                           number, JSON name, type, what Go writes; `!`: required
//!  2 - .VolumeSource i                        a message whose fields Go writes in place of it
//!  6 ports [].ContainerPort o list=map:containerPort,protocol patch=merge key=containerPort
//! ```
//!
//! A type is a word, or `package.Name` for a message (`.Name` in the same package), after `[]` for
//! a list and `{}` for a map by string. What Go writes: `o` nothing if zero, `p` the value if set,
//! `a` always, `n` null if unset. Other words: `list=`, `atomic`, `patch=`, `key=` (merge key),
//! `default=`, `discriminator`, `go=` (the name of its Go type), `after=` (the field that it
//! follows, for a field that is not in the file of its type).
//!
//! Fields are in the order in which Go declares them, which is the order of JSON; the generated
//! messages have them by field number.
//!
//! `enums.txt` lists the values of enumerations by the names of their Go types; fields find theirs
//! by `go=`.
//!
//! A type may be in two files and then has the fields of both: `initializers.txt` is written by
//! hand and has what Kubernetes had up to 1.13.

#![allow(clippy::expect_used, clippy::panic, reason = "a broken table must stop the build")]

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::{env, fs};

#[path = "build/enums.rs"]
mod enums;
#[path = "build/descriptions.rs"]
mod descriptions;

use enums::Enums;

fn main() {
    println!("cargo::rerun-if-changed=tables");
    println!("cargo::rerun-if-changed=build");
    let mut table = Table::default();
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("set by Cargo")).join("tables");
    for entry in fs::read_dir(folder).expect("the table is there") {
        let path = entry.expect("a readable folder").path();
        let text = fs::read_to_string(&path).expect("a readable table");
        match path.file_name().and_then(|name| name.to_str()) {
            Some("emit.txt") => {}
            Some("enums.txt") => table.enums = Enums::parse(&text),
            _ => table.read(&text),
        }
    }
    for ty in table.types.values_mut() {
        ty.sort_fields();
    }
    let generated = Generated::new(&table).render();
    let out = env::var("OUT_DIR").expect("set by Cargo");
    let out = Path::new(&out);
    fs::write(out.join("types.rs"), &generated).expect("a writable OUT_DIR");
    let descriptions = descriptions::collect();
    descriptions::write(&descriptions, out);
    let mut hasher = DefaultHasher::new();
    (generated, descriptions).hash(&mut hasher);
    println!("cargo::rustc-env=SAMPAN_TYPES_FINGERPRINT={:016x}", hasher.finish());
}

/// The parsed tables.
#[derive(Default)]
struct Table {
    /// API version and OpenAPI prefix, by package.
    packages: BTreeMap<String, (String, String)>,
    /// By package and name, which is the order of the generated types.
    types: BTreeMap<(String, String), Type>,
    enums: Enums,
}

#[derive(Default)]
struct Type {
    flags: Vec<String>,
    /// Sorted by field number once the table is complete.
    fields: Vec<Field>,
    /// Indexes in `fields`, in the order of declaration.
    declared: Vec<usize>,
}

impl Type {
    /// Sorts the fields by number, and remembers the order in which they were declared.
    fn sort_fields(&mut self) {
        let added = |field: &Field| field.attribute("after").is_some();
        let (added, mut declared): (Vec<Field>, Vec<Field>) =
            std::mem::take(&mut self.fields).into_iter().partition(added);
        for field in added {
            let before = field.attribute("after").expect("only fields with `after` are added");
            let at = declared.iter().position(|other| other.json == before);
            declared.insert(at.expect("it follows a field of its type") + 1, field);
        }
        let number = |field: &Field| field.number.parse::<u32>().expect("a field has a number");
        let mut numbers: Vec<u32> = declared.iter().map(number).collect();
        numbers.sort_unstable();
        let index = |field: &Field| numbers.binary_search(&number(field)).expect("it is listed");
        self.declared = declared.iter().map(index).collect();
        declared.sort_by_key(number);
        self.fields = declared;
    }
}

struct Field {
    number: String,
    json: String,
    container: &'static str,
    /// A word, or the key of a message.
    item: Result<String, (String, String)>,
    emit: char,
    required: bool,
    attributes: Vec<String>,
}

impl Table {
    fn read(&mut self, text: &str) {
        let mut package = String::new();
        let mut current = None;
        for line in text.lines() {
            if let Some(head) = line.strip_prefix("= ") {
                let [name, version, prefix] = words(head);
                package.clone_from(&name);
                self.packages.insert(name, (version, prefix));
            } else if let Some(line) = line.strip_prefix(' ') {
                let key = current.as_ref().expect("a type comes before its fields");
                let owner = self.types.get_mut(key).expect("it was just added");
                owner.fields.push(Field::parse(&package, line));
            } else {
                let mut flags = line.split(' ').map(str::to_owned);
                let key = (package.clone(), flags.next().expect("a type has a name"));
                self.types.entry(key.clone()).or_default().flags.extend(flags);
                current = Some(key);
            }
        }
    }
}

impl Field {
    fn parse(package: &str, line: &str) -> Self {
        let mut rest = line.splitn(5, ' ');
        let mut word = || rest.next().unwrap_or_else(|| panic!("too short: {line}"));
        let (number, json, ty, emit) = (word(), word(), word(), word());
        let (container, ty) = match (ty.strip_prefix("[]"), ty.strip_prefix("{}")) {
            (Some(ty), _) => ("List", ty),
            (_, Some(ty)) => ("Map", ty),
            _ => ("One", ty),
        };
        let item = match ty.rsplit_once('.') {
            None => Ok(ty.to_owned()),
            Some(("", name)) => Err((package.to_owned(), name.to_owned())),
            Some((other, name)) => Err((other.to_owned(), name.to_owned())),
        };
        Self {
            number: number.to_owned(),
            json: json.to_owned(),
            container,
            item,
            emit: emit.chars().next().expect("a letter"),
            required: emit.ends_with('!'),
            attributes: rest.flat_map(|rest| rest.split(' ')).map(str::to_owned).collect(),
        }
    }

    fn has(&self, word: &str) -> bool {
        self.attributes.iter().any(|attribute| attribute == word)
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find_map(|it| it.strip_prefix(name)?.strip_prefix('='))
    }
}

fn words<const N: usize>(text: &str) -> [String; N] {
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    words.try_into().unwrap_or_else(|_| panic!("not {N} words: {text}"))
}

/// The source text of the statics, while it is written.
struct Generated<'a> {
    table: &'a Table,
    /// The index of each type.
    type_indexes: HashMap<&'a (String, String), usize>,
    /// Every string once, one after the other.
    text: String,
    /// The offset of each string in `text`.
    text_offsets: HashMap<String, usize>,
    packages: String,
    types: String,
    fields: String,
    field_count: usize,
    /// The index of the first field of each type.
    first: HashMap<&'a (String, String), usize>,
    /// Indexes of fields: those of each type by JSON name, then those that Go always writes.
    by_name: Vec<usize>,
    /// For each of `by_name`, its position in the order of declaration.
    declared_positions: Vec<usize>,
    keys: Vec<String>,
}

impl<'a> Generated<'a> {
    fn new(table: &'a Table) -> Self {
        let mut generated = Self {
            table,
            type_indexes: table.types.keys().zip(0..).collect(),
            text: String::new(),
            text_offsets: HashMap::new(),
            packages: String::new(),
            types: String::new(),
            fields: String::new(),
            field_count: 0,
            first: HashMap::new(),
            by_name: Vec::new(),
            declared_positions: Vec::new(),
            keys: Vec::new(),
        };
        for name in ["apiVersion", "kind"] {
            generated.field("", &Field::parse("", &format!("0 {name} string o")));
        }
        for (key, ty) in &table.types {
            generated.first.insert(key, generated.field_count);
            ty.fields.iter().for_each(|field| generated.field(&key.0, field));
        }
        for (name, (version, prefix)) in &table.packages {
            let (name, version, prefix) =
                (generated.intern(name), generated.intern(version), generated.intern(prefix));
            let line = format!("Package{{name:{name},api_version:{version},openapi:{prefix}}},\n");
            generated.packages.push_str(&line);
        }
        for (key, ty) in &table.types {
            generated.ty(key, ty);
        }
        generated
    }

    fn intern(&mut self, text: &str) -> String {
        if text.is_empty() {
            return "Text(0,0)".to_owned();
        }
        let at = *self.text_offsets.entry(text.to_owned()).or_insert_with(|| {
            self.text.push_str(text);
            self.text.len() - text.len()
        });
        format!("Text({at},{})", text.len())
    }

    fn field(&mut self, package: &str, field: &Field) {
        self.field_count += 1;
        let (first_value, values) =
            self.table.enums.span(package, field.attribute("go").unwrap_or_default());
        let json = self.intern(field.json.trim_matches('-'));
        let go = self.intern(field.attribute("go").unwrap_or_default());
        let default = self.intern(field.attribute("default").unwrap_or_default());
        let merge_key = self.intern(field.attribute("key").unwrap_or_default());
        let item = match &field.item {
            Ok(word) => format!("Item::{}", camel(word)),
            Err(key) => format!("Item::Message(TypeId({}))", self.type_index(key)),
        };
        let (list, keys) =
            match field.attribute("list").map(|list| list.split_once(':').unwrap_or((list, ""))) {
                None => ("Unset".to_owned(), ""),
                Some((list, keys)) => (camel(list), keys),
            };
        let first_key = self.keys.len();
        for key in keys.split(',').filter(|key| !key.is_empty()) {
            let key = self.intern(key);
            self.keys.push(key);
        }
        let patch: Vec<&str> = field.attribute("patch").unwrap_or_default().split(',').collect();
        let emit = match field.emit {
            'o' | 'i' => "OmitZero",
            'p' => "Pointer",
            'a' => "Always",
            'n' => "Null",
            other => panic!("no such letter: {other}"),
        };
        writeln!(
            self.fields,
            "Field{{json:{json},go:{go},default:{default},merge_key:{merge_key},item:{item},\
             container:Container::{},number:{},emit:Emit::{emit},list:ListType::{list},\
             keys:Span({first_key},{}),enums:Span({first_value},{values}),required:{},atomic:{},\
             merge:{},retain_keys:{},inline:{},discriminator:{}}},",
            field.container,
            field.number,
            self.keys.len() - first_key,
            field.required,
            field.has("atomic"),
            patch.contains(&"merge"),
            patch.contains(&"retainKeys"),
            field.emit == 'i',
            field.has("discriminator"),
        )
        .expect("writing to a string does not fail");
    }

    fn type_index(&self, key: &(String, String)) -> usize {
        *self.type_indexes.get(key).unwrap_or_else(|| panic!("no type {}.{}", key.0, key.1))
    }

    fn ty(&mut self, key: &(String, String), ty: &Type) {
        let kind = ty.flags.iter().any(|flag| flag == "@");
        // Go declares `TypeMeta`, which has these two, first.
        let mut declared: Vec<(&str, usize, char)> =
            if kind { vec![("kind", 1, 'o'), ("apiVersion", 0, 'o')] } else { Vec::new() };
        self.flatten(key, &mut declared);
        // By name: (index of the field, position in the declaration, whether Go always writes it).
        let json: BTreeMap<&str, (usize, usize, bool)> = declared
            .iter()
            .enumerate()
            .map(|(position, (name, index, emit))| {
                (*name, (*index, position, matches!(emit, 'a' | 'n')))
            })
            .collect();
        let always = json.values().filter(|(.., always)| *always);
        let fields = format!("Span({},{})", self.by_name.len(), json.len());
        let always_written =
            format!("Span({},{})", self.by_name.len() + json.len(), always.clone().count());
        for (index, position, _) in json.values().chain(always) {
            self.by_name.push(*index);
            self.declared_positions.push(*position);
        }
        let package = self.table.packages.keys().position(|name| *name == key.0);
        let name = self.intern(&format!("{}.{}", key.0, key.1));
        writeln!(
            self.types,
            "Type{{name:{name},package:{},short:{},fields:{fields},always_written:{always_written},\
             wire:Span({},{}),is_kind:{kind},atomic:{},union:{}}},",
            package.expect("a type has a package"),
            key.0.len() + 1,
            self.first[key],
            ty.fields.len(),
            ty.flags.iter().any(|flag| flag == "atomic"),
            ty.flags.iter().any(|flag| flag == "union"),
        )
        .expect("writing to a string does not fail");
    }

    /// Appends (name, index, letter for what Go writes) of the fields of a type, in the order of
    /// Go's declaration. An inlined message is replaced by its fields.
    fn flatten(&self, key: &(String, String), into: &mut Vec<(&'a str, usize, char)>) {
        let ty = &self.table.types[key];
        for offset in &ty.declared {
            let field = &ty.fields[*offset];
            match &field.item {
                Err(inlined) if field.emit == 'i' => self.flatten(inlined, into),
                _ => into.push((&field.json, self.first[key] + offset, field.emit)),
            }
        }
    }

    fn render(&mut self) -> String {
        let table = self.table;
        let values: Vec<String> =
            table.enums.values.iter().map(|value| self.intern(value)).collect();
        format!(
            "pub(super) static TEXT: &str = {:?};\n\
             pub(super) static PACKAGES: [Package; {}] = [\n{}];\n\
             pub(super) static TYPES: [Type; {}] = [\n{}];\n\
             pub(super) static FIELDS: [Field; {}] = [\n{}];\n\
             pub(super) static BY_NAME: [u16; {}] = {:?};\n\
             pub(super) static DECLARED: [u8; {}] = {:?};\n\
             pub(super) static KEYS: [Text; {}] = [{}];\n\
             pub(super) static ENUMS: [Text; {}] = [{}];\n",
            self.text,
            self.table.packages.len(),
            self.packages,
            self.table.types.len(),
            self.types,
            self.field_count,
            self.fields,
            self.by_name.len(),
            self.by_name,
            self.declared_positions.len(),
            self.declared_positions,
            self.keys.len(),
            self.keys.join(","),
            values.len(),
            values.join(","),
        )
    }
}

/// The name of the variant for a word of the table.
fn camel(word: &str) -> String {
    if word == "JSON" {
        return "Json".to_owned();
    }
    word[..1].to_uppercase() + &word[1..]
}
