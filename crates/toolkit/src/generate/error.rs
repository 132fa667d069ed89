//! [`GenerateError`]: why there are no types, and what to do next.

use std::io;

/// See the [module documentation](self).
#[derive(Debug, thiserror::Error)]
pub(crate) enum GenerateError {
    /// Correct the name of the file, or its permissions.
    #[error("cannot read {source_name}")]
    Read {
        source_name: String,
        #[source]
        cause: io::Error,
    },
    /// Name the file of the CRD alone.
    #[error("{source_name} is larger than {limit} MiB, which no CRD is: name the file of a CRD")]
    TooLarge { source_name: String, limit: u64 },
    /// Name another file.
    #[error(
        "{source_name} is neither YAML nor JSON: {problem}; a CRD is what `sampan get crd NAME -o yaml` \
         prints"
    )]
    NotYaml { source_name: String, problem: String },
    /// Name another file.
    #[error(
        "{source_name} has no CustomResourceDefinition, but {found}: name the file of a CRD, or read it \
         from the server with --crd NAME"
    )]
    NoCrd { source_name: String, found: String },
    /// Convert the CRD.
    #[error(
        "the CRD {name} is of {version}, which servers no longer accept: convert it to \
         apiextensions.k8s.io/v1, where each version has a schema of its own in spec.versions"
    )]
    OldVersion { name: String, version: String },
    /// Correct the CRD.
    #[error(
        "the CRD {name} has no {field}: correct it, or read it from a server with --crd {name}"
    )]
    MissingField { name: String, field: String },
    /// Nothing can be derived from it.
    #[error(
        "version {version} of {name} has no schema in schema.openAPIV3Schema: there is nothing to \
         generate types from; choose another version with --version, or use `DynamicObject`"
    )]
    NoSchema { name: String, version: String },
    /// Choose one of the versions.
    #[error("{name} has no version {version}: choose one of {known}")]
    UnknownVersion { name: String, version: String, known: String },
    /// Ask for a folder.
    #[error(
        "these are {} files, {}: write them to a folder with --output DIR, or name one CRD and \
         one --version",
        .files.len(),
        .files.join(", ")
    )]
    SeveralFiles { files: Vec<String> },
    /// Leave one of them out.
    #[error("{first} and {second} would both be written to {file}: leave one of them out")]
    SameFile { first: String, second: String, file: String },
    /// Move the files away, or overwrite them.
    #[error("{files} would be overwritten: move what you need away, or overwrite with --force")]
    Exists { files: String },
    /// Correct the name.
    #[error(
        "--crd {name:?}: the name of a CRD is its plural and its group, such as \
         certificates.cert-manager.io; `sampan get crds` lists them"
    )]
    CrdName { name: String },
    /// Use another server.
    #[error("the server has no CRD {name}: `sampan get crds` lists those that it has")]
    UnknownCrd { name: String },
    /// Make the schema smaller: servers have limits, too.
    #[error("{field} is nested more than {limit} levels deep: make the schema flatter")]
    TooDeep { field: String, limit: usize },
    /// Make the schema smaller: servers have limits, too.
    #[error("the schema of {name} has more than {limit} fields: make it smaller")]
    TooManyFields { name: String, limit: usize },
    /// Replace the reference: a structural schema has none.
    #[error(
        "{field} has a $ref, which no server accepts in a CRD: replace it by the schema it refers to"
    )]
    Reference { field: String },
    /// Correct the schema.
    #[error("the schema of {field} is not an object but {found}: correct it")]
    NotASchema { field: String, found: String },
}
