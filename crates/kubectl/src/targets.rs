//! [`Targets`]: the objects and collections that the arguments of a verb name.

use crate::discovery::{ApiResource, Discovery};
use crate::error::Error;
use crate::io::Io;
use crate::manifests::{FileArgs, Manifest};
use crate::session::Session;
use machinery::Value;
use machinery::fields::text;

/// The error of a verb without arguments.
const NOTHING_NAMED: &str = "You must provide one or more resources by argument or filename.
Example resource specifications include:
   '-f rsrc.yaml'
   '--filename=rsrc.json'
   '<resource> <name>'
   '<resource>'";

/// An object, or a collection without a name.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub resource: ApiResource,
    /// None for a resource without namespaces, and for a collection in all namespaces.
    pub namespace: Option<String>,
    pub name: Option<String>,
    /// The manifest that names it.
    pub manifest: Option<Manifest>,
}

impl Target {
    /// The path of the object or the collection.
    pub(crate) fn path(&self) -> String {
        let collection = self.resource.collection(self.namespace.as_deref());
        match &self.name {
            Some(name) => format!("{collection}/{name}"),
            None => collection,
        }
    }

    /// An object of a collection, or of a manifest.
    pub(crate) fn of_object(resource: &ApiResource, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let namespace = Some(text(metadata, "namespace")).filter(|it| !it.is_empty());
        Self {
            resource: resource.clone(),
            namespace: namespace.map(str::to_owned).filter(|_| resource.is_namespaced),
            name: Some(text(metadata, "name").to_owned()),
            manifest: None,
        }
    }
}

/// What selects objects of a collection.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SelectorArgs {
    /// Label selector, such as `app=web,tier!=db` or `env in (a,b)`
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Field selector, such as `metadata.name=web`
    #[arg(long, value_name = "SELECTOR")]
    pub field_selector: Option<String>,
}

impl SelectorArgs {
    /// Whether anything is selected.
    pub(crate) fn is_empty(&self) -> bool {
        self.selector.as_deref().unwrap_or_default().is_empty()
            && self.field_selector.as_deref().unwrap_or_default().is_empty()
    }

    /// The parameters of a list.
    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let label = self.selector.iter().map(|it| ("labelSelector", it.clone()));
        let field = self.field_selector.iter().map(|it| ("fieldSelector", it.clone()));
        label.chain(field).filter(|it| !it.1.is_empty()).collect()
    }
}

/// What a verb does with arguments.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rules {
    /// A type without a name means all its objects.
    pub allows_collections: bool,
    /// Objects of all namespaces.
    pub all_namespaces: bool,
    /// A selector or `--all` is given, which excludes names.
    pub has_selector: bool,
}

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct Targets {
    pub targets: Vec<Target>,
    /// The arguments name one object, which is not printed as a list.
    pub is_single: bool,
}

impl Targets {
    /// Finds the targets of arguments and files.
    pub(crate) async fn find(
        session: &Session,
        io: &mut Io,
        args: &[String],
        files: &FileArgs,
        rules: Rules,
    ) -> Result<Self, Error> {
        if !files.is_empty() {
            if !args.is_empty() {
                return Err(Error::message(
                    "when paths, URLs, or stdin is provided as input, you may not specify resource \
                     arguments as well",
                ));
            }
            let targets = of_files(session, io, files).await?;
            let is_single = files.is_one_file();
            return Ok(Self { targets, is_single });
        }
        let discovery = session.discovery().await?;
        let namespace = if rules.all_namespaces { None } else { Some(session.namespace.as_str()) };
        let named = Named { discovery, namespace, rules };
        named.find(args)
    }
}

/// The targets that files name.
pub(crate) async fn of_files(
    session: &Session,
    io: &mut Io,
    files: &FileArgs,
) -> Result<Vec<Target>, Error> {
    let manifests = files.read(io)?;
    let discovery = session.discovery().await?;
    let mut targets = Vec::new();
    for manifest in manifests {
        targets.push(of_manifest(session, discovery, manifest)?);
    }
    if targets.is_empty() {
        return Err(Error::message("no objects passed to the verb: the files have none"));
    }
    Ok(targets)
}

fn of_manifest(
    session: &Session,
    discovery: &Discovery,
    mut manifest: Manifest,
) -> Result<Target, Error> {
    let object = &mut manifest.object;
    let (api_version, kind) =
        (text(object, "apiVersion").to_owned(), text(object, "kind").to_owned());
    let (name, own) = {
        let metadata = &object["metadata"];
        (text(metadata, "name").to_owned(), text(metadata, "namespace").to_owned())
    };
    let Some(resource) = discovery.of_kind(&api_version, &kind) else {
        return Err(Error::message(format!(
            "resource mapping not found for name: {name:?} namespace: {own:?} from {:?}: no matches \
             for kind {kind:?} in version {api_version:?}\nensure CRDs are installed first",
            manifest.source
        )));
    };
    let namespace = resource
        .is_namespaced
        .then(|| if own.is_empty() { session.namespace.clone() } else { own });
    if let Some(namespace) = &namespace {
        let given = &session.namespace;
        if session.is_namespace_given && namespace != given {
            return Err(Error::message(format!(
                "the namespace from the provided object {namespace:?} does not match the namespace \
                 {given:?}. You must pass '--namespace={namespace}' to perform this operation."
            )));
        }
        object["metadata"]["namespace"] = namespace.as_str().into();
    }
    let name = Some(name).filter(|it| !it.is_empty());
    let resource = resource.clone();
    Ok(Target { resource, namespace, name, manifest: Some(manifest) })
}

/// Finds the targets of arguments.
struct Named<'a> {
    discovery: &'a Discovery,
    namespace: Option<&'a str>,
    rules: Rules,
}

impl Named<'_> {
    fn find(&self, args: &[String]) -> Result<Targets, Error> {
        let Some((types, names)) = args.split_first() else {
            return Err(Error::message(NOTHING_NAMED));
        };
        // `pods,services web` means the same as `pods/web services/web`.
        let several: Vec<String>;
        let args = if types.contains(',') && !types.contains('/') && !names.is_empty() {
            let each = types
                .split(',')
                .flat_map(|it| names.iter().map(move |name| format!("{it}/{name}")));
            several = each.collect();
            &several
        } else {
            args
        };
        let slashes = args.iter().filter(|it| it.contains('/')).count();
        if slashes == args.len() {
            return self.tuples(args);
        }
        if slashes > 0 {
            return Err(Error::message(
                "there is no need to specify a resource type as a separate argument when passing \
                 arguments in resource/name form (e.g. 'kubectl get resource/<resource_name>' instead \
                 of 'kubectl get resource resource/<resource_name>'",
            ));
        }
        if names.is_empty() {
            return self.collections(types);
        }
        if self.rules.has_selector {
            return Err(Error::message("name cannot be provided when a selector is specified"));
        }
        let resource = self.discovery.resource(types)?;
        let targets: Result<Vec<Target>, Error> =
            names.iter().map(|name| self.object(resource, name)).collect();
        Ok(Targets { targets: targets?, is_single: names.len() == 1 })
    }

    fn tuples(&self, args: &[String]) -> Result<Targets, Error> {
        let mut pairs = Vec::new();
        for arg in args {
            let parts: Vec<&str> = arg.split('/').collect();
            let [types, name] = parts[..] else {
                return Err(Error::message(
                    "arguments in resource/name form may not have more than one slash",
                ));
            };
            if types.is_empty() || name.is_empty() || types.contains(',') {
                return Err(Error::message(
                    "arguments in resource/name form must have a single resource and name",
                ));
            }
            pairs.push((types, name));
        }
        if self.rules.has_selector {
            return Err(Error::message(
                "selectors and the all flag cannot be used when passing resource/name arguments",
            ));
        }
        let mut targets = Vec::new();
        for (types, name) in pairs {
            targets.push(self.object(self.discovery.resource(types)?, name)?);
        }
        let is_single = targets.len() == 1;
        Ok(Targets { targets, is_single })
    }

    fn object(&self, resource: &ApiResource, name: &str) -> Result<Target, Error> {
        if resource.is_namespaced && self.namespace.is_none() {
            return Err(Error::message(
                "a resource cannot be retrieved by name across all namespaces",
            ));
        }
        Ok(Target {
            resource: resource.clone(),
            namespace: self.namespace.filter(|_| resource.is_namespaced).map(str::to_owned),
            name: Some(name.to_owned()),
            manifest: None,
        })
    }

    fn collections(&self, types: &str) -> Result<Targets, Error> {
        let mut resources: Vec<&ApiResource> = Vec::new();
        for word in types.split(',').filter(|it| !it.is_empty()) {
            let category = self.discovery.category(word);
            let found =
                if category.is_empty() { vec![self.discovery.resource(word)?] } else { category };
            for resource in found {
                let is_new = !resources
                    .iter()
                    .any(|it| it.name == resource.name && it.group == resource.group);
                if is_new {
                    resources.push(resource);
                }
            }
        }
        if resources.is_empty() {
            return Err(Error::message(
                "at least one resource must be specified to use a selector",
            ));
        }
        if !self.rules.allows_collections && !self.rules.has_selector {
            return Err(Error::message("resource(s) were provided, but no name was specified"));
        }
        let target = |resource: &&ApiResource| Target {
            resource: (*resource).clone(),
            namespace: self.namespace.filter(|_| resource.is_namespaced).map(str::to_owned),
            name: None,
            manifest: None,
        };
        Ok(Targets { targets: resources.iter().map(target).collect(), is_single: false })
    }
}
