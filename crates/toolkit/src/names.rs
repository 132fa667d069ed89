//! The rules for the names that a user chooses. An error names the flag, the rule and a name that
//! would do.

use anyhow::{Result, bail};

/// The longest name of a project: names of Services and namespaces are derived from it, and these
/// have at most 63 characters.
const MAX_PROJECT: usize = 50;

/// Words that cannot be the name of a module.
pub(crate) const KEYWORDS: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// The crates that a scaffold names, and the files that it has: a module or a crate of the same name
/// would hide them.
const TAKEN: [&str; 16] = [
    "alloc",
    "anyhow",
    "clap",
    "core",
    "k8s_openapi",
    "lib",
    "main",
    "proc_macro",
    "runtime",
    "serde",
    "serde_json",
    "std",
    "test",
    "testenv",
    "tokio",
    "tracing_subscriber",
];

/// Types that the scaffold of a kind imports.
const IMPORTED_TYPES: [&str; 45] = [
    "Action",
    "Api",
    "Applier",
    "Arc",
    "Box",
    "Client",
    "ClientExt",
    "Clock",
    "Condition",
    "Context",
    "Controller",
    "CustomResourceExt",
    "DeleteParams",
    "Duration",
    "Err",
    "EventType",
    "Failure",
    "LeaderElection",
    "Lister",
    "ListParams",
    "Manager",
    "ManagerOptions",
    "Mapper",
    "NewCondition",
    "None",
    "NotFoundExt",
    "ObjectMeta",
    "Ok",
    "Option",
    "Patch",
    "PatchParams",
    "PostParams",
    "Predicate",
    "Recorder",
    "Request",
    "Resource",
    "ResourceExt",
    "Result",
    "Selection",
    "Self",
    "Some",
    "Stage",
    "String",
    "Vec",
    "Versions",
];

/// Groups that only Kubernetes itself may use.
const RESERVED_GROUPS: [&str; 2] = ["k8s.io", "kubernetes.io"];

/// The name of a project: of its crate, its namespace and its objects.
pub(crate) fn check_project(name: &str) -> Result<()> {
    if let Some(problem) = dns_label_problem(name) {
        let proposal = as_dns_label(name);
        bail!("--name {name:?}: {problem}; {}", propose("--name", name, &proposal, check_project));
    }
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        bail!(
            "--name {name:?}: the name of a crate begins with a letter; use --name operator-{name}"
        );
    }
    if name.len() > MAX_PROJECT {
        bail!(
            "--name {name:?}: it has {} characters, and the names that are derived from it would be \
             too long; use at most {MAX_PROJECT}",
            name.len()
        );
    }
    let krate = crate_name(name);
    if KEYWORDS.contains(&krate.as_str()) {
        bail!("--name {name:?}: this is a word of Rust; use --name {name}-operator");
    }
    if TAKEN.contains(&krate.as_str()) {
        bail!("--name {name:?}: the project uses a crate of this name; use --name {name}-operator");
    }
    Ok(())
}

/// The name of the crate in Rust code.
pub(crate) fn crate_name(project: &str) -> String {
    project.replace('-', "_")
}

/// The domain of the groups.
pub(crate) fn check_domain(domain: &str) -> Result<()> {
    check_subdomain("--domain", domain)?;
    check_reserved("--domain", domain)
}

/// The full group: a group without a dot is completed with the domain, as in kubebuilder.
pub(crate) fn full_group(group: &str, domain: &str) -> Result<String> {
    let full = match group {
        "" => domain.to_owned(),
        _ if group.contains('.') => group.to_owned(),
        _ => format!("{group}.{domain}"),
    };
    check_subdomain("--group", &full)?;
    check_reserved("--group", &full)?;
    Ok(full)
}

fn check_subdomain(flag: &str, name: &str) -> Result<()> {
    if name.len() > 253 {
        bail!("{flag} {name:?}: it has {} characters, and at most 253 are allowed", name.len());
    }
    if let Some(problem) = name.split('.').find_map(dns_label_problem) {
        bail!("{flag} {name:?}: {problem}; use a DNS name such as example.com");
    }
    Ok(())
}

fn check_reserved(flag: &str, name: &str) -> Result<()> {
    let is_below = |it: &str| name.strip_suffix(it).is_some_and(is_empty_or_dotted);
    if let Some(reserved) = RESERVED_GROUPS.iter().find(|it| is_below(it)) {
        bail!(
            "{flag} {name:?}: groups below {reserved} are reserved for Kubernetes, and a server \
             refuses their CRDs without an approval; use a domain of your own, such as example.com"
        );
    }
    Ok(())
}

fn is_empty_or_dotted(rest: &str) -> bool {
    rest.is_empty() || rest.ends_with('.')
}

/// The version of a kind, such as `v1` or `v1beta1`.
pub(crate) fn check_version(version: &str) -> Result<()> {
    let is_number = |text: &str| {
        !text.starts_with('0') && !text.is_empty() && text.chars().all(|it| it.is_ascii_digit())
    };
    let is_version = version.strip_prefix('v').is_some_and(|rest| {
        let stage = ["alpha", "beta"].iter().find_map(|stage| rest.split_once(stage));
        stage.map_or(is_number(rest), |(major, minor)| is_number(major) && is_number(minor))
    });
    if !is_version {
        bail!("--version {version:?}: a version is v1, v2, … or v1alpha1, v1beta2, …");
    }
    Ok(())
}

/// The name of a kind.
pub(crate) fn check_kind(kind: &str) -> Result<()> {
    let is_camel = kind.starts_with(|it: char| it.is_ascii_uppercase())
        && kind.chars().all(|it| it.is_ascii_alphanumeric());
    if !is_camel {
        let proposal = as_camel_case(kind);
        bail!(
            "--kind {kind:?}: a kind is in UpperCamelCase, with letters and digits; {}",
            propose("--kind", kind, &proposal, check_kind)
        );
    }
    if kind.len() > 50 {
        bail!("--kind {kind:?}: it has {} characters; use at most 50", kind.len());
    }
    if IMPORTED_TYPES.contains(&kind) {
        bail!("--kind {kind}: the scaffold imports a type of this name; use --kind Custom{kind}");
    }
    let module = module_name(kind);
    if KEYWORDS.contains(&module.as_str()) {
        bail!(
            "--kind {kind}: its module would be `{module}`, a word of Rust; use --kind Custom{kind}"
        );
    }
    if TAKEN.contains(&module.as_str()) {
        bail!(
            "--kind {kind}: its module would be `{module}`, which is the name of a crate or a file of \
             the project; use --kind Custom{kind}"
        );
    }
    Ok(())
}

/// The plural of a kind.
pub(crate) fn check_plural(plural: &str) -> Result<()> {
    if let Some(problem) = dns_label_problem(plural) {
        bail!("--plural {plural:?}: {problem}; use lower case, as in custompods");
    }
    if plural.starts_with(|first: char| first.is_ascii_digit()) {
        bail!("--plural {plural:?}: it begins with a digit; begin with a letter, as in custompods");
    }
    Ok(())
}

/// The name of a module for a kind: `CustomPod` is `custom_pod`, and `HTTPRoute` is `http_route`.
pub(crate) fn module_name(kind: &str) -> String {
    let letters: Vec<char> = kind.chars().collect();
    let mut name = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| letters[before]);
        let is_start = letter.is_ascii_uppercase()
            && before.is_some_and(|before| {
                let after = letters.get(index + 1);
                !before.is_ascii_uppercase() || after.is_some_and(char::is_ascii_lowercase)
            });
        if is_start {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// The English plural of a kind in lower case.
pub(crate) fn plural_of(kind: &str) -> String {
    let singular = kind.to_lowercase();
    let ends = |ends: &[&str]| ends.iter().any(|end| singular.ends_with(end));
    if ends(&["ay", "ey", "iy", "oy", "uy"]) {
        return format!("{singular}s");
    }
    match singular.strip_suffix('y') {
        Some(stem) if !stem.is_empty() => format!("{stem}ies"),
        _ if ends(&["s", "x", "z", "ch", "sh"]) => format!("{singular}es"),
        _ => format!("{singular}s"),
    }
}

/// The reason why a name is no DNS label.
fn dns_label_problem(name: &str) -> Option<String> {
    let is_allowed = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
    if name.is_empty() {
        return Some("it has an empty part".to_owned());
    }
    if let Some(other) = name.chars().find(|it| !is_allowed(*it)) {
        return Some(format!("{other:?} is not allowed: only a to z, 0 to 9 and '-' are"));
    }
    if name.starts_with('-') || name.ends_with('-') {
        return Some("'-' may stand only between letters and digits".to_owned());
    }
    (name.len() > 63).then(|| format!("a part has {} characters, and 63 are allowed", name.len()))
}

/// A name to use instead of `name`. A proposal that is the name itself or empty would be refused, too.
fn propose(flag: &str, name: &str, proposal: &str, check: impl Fn(&str) -> Result<()>) -> String {
    let is_better = !proposal.is_empty() && proposal != name;
    if is_better && check(proposal).is_ok() {
        format!("use {flag} {proposal}")
    } else {
        "use another".to_owned()
    }
}

fn as_dns_label(name: &str) -> String {
    let lower = name.to_lowercase();
    let parts = lower.split(|it: char| !it.is_ascii_alphanumeric()).filter(|it| !it.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

fn as_camel_case(name: &str) -> String {
    let words = name.split(|it: char| !it.is_ascii_alphanumeric());
    words
        .filter_map(|word| {
            let first = word.chars().next()?;
            Some(format!("{}{}", first.to_ascii_uppercase(), &word[1..]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(result: Result<()>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_module_is_the_kind_in_snake_case() {
        for (kind, module) in [
            ("CustomPod", "custom_pod"),
            ("HTTPRoute", "http_route"),
            ("Vpc", "vpc"),
            ("VPC", "vpc"),
            ("IPv4Pool", "i_pv4_pool"),
            ("Site2", "site2"),
        ] {
            assert_eq!(module_name(kind), module);
        }
    }

    #[test]
    fn plurals_are_english() {
        for (kind, plural) in [
            ("CustomPod", "custompods"),
            ("Policy", "policies"),
            ("Gateway", "gateways"),
            ("Ingress", "ingresses"),
            ("Box", "boxes"),
            ("Batch", "batches"),
            ("Y", "ys"),
        ] {
            assert_eq!(plural_of(kind), plural);
        }
    }

    #[test]
    fn a_group_without_a_dot_is_below_the_domain() {
        assert_eq!(full_group("zhhnzw", "mock.com").unwrap(), "zhhnzw.mock.com");
        assert_eq!(full_group("zhhnzw.mock.com", "mock.com").unwrap(), "zhhnzw.mock.com");
        assert_eq!(full_group("", "mock.com").unwrap(), "mock.com");
        let reserved = error(full_group("samplecrd.k8s.io", "mock.com").map(drop));
        assert!(reserved.contains("reserved for Kubernetes"), "{reserved}");
        assert!(full_group("notk8s.io", "mock.com").is_ok());
        assert!(
            error(full_group("a_b", "mock.com").map(drop)).contains("--group \"a_b.mock.com\"")
        );
    }

    #[test]
    fn versions_are_those_of_kubernetes() {
        for version in ["v1", "v2beta1", "v10alpha12"] {
            check_version(version).unwrap();
        }
        for version in
            ["", "1", "v", "v0", "v01", "v1beta", "v1gamma1", "V1", "v1.0", "v1beta1beta1"]
        {
            assert!(error(check_version(version)).contains("v1alpha1"), "{version}");
        }
    }

    #[test]
    fn a_refused_name_comes_with_one_that_would_do() {
        assert!(error(check_kind("custom-pod")).ends_with("use --kind CustomPod"));
        assert!(error(check_kind("vpc")).ends_with("use --kind Vpc"));
        assert!(error(check_kind("Type")).ends_with("use --kind CustomType"));
        assert!(error(check_kind("Runtime")).ends_with("use --kind CustomRuntime"));
        assert!(error(check_kind("Main")).contains("`main`"));
        assert!(error(check_kind("Client")).contains("imports a type"));
        assert!(error(check_kind("类")).ends_with("use another"));
        assert!(error(check_project("Operator_Demo")).ends_with("use --name operator-demo"));
        assert!(error(check_project("match")).ends_with("use --name match-operator"));
        assert!(error(check_project("runtime")).ends_with("use --name runtime-operator"));
        assert!(error(check_project("3d")).ends_with("use --name operator-3d"));
        assert!(error(check_project(&"a".repeat(51))).contains("51 characters"));
        assert!(error(check_plural("CustomPods")).contains("lower case"));
        assert!(error(check_domain("mock..com")).contains("an empty part"));
        assert!(error(check_domain("k8s.io")).contains("domain of your own"));
        check_project("operator-demo").unwrap();
        check_domain("mock.com").unwrap();
        check_kind("CustomPod").unwrap();
        check_plural("custompods").unwrap();
    }

    #[test]
    fn the_tables_are_sorted() {
        assert!(KEYWORDS.is_sorted() && TAKEN.is_sorted());
    }
}
