//! [`ResourceVersions`]: the versions of a resource, for managers whose fields are in another
//! version than the request.

use std::sync::Arc;

use super::{CustomSchema, TypeRef};
use crate::resource::{Resource, Shape, Version};
use machinery::Object;
use machinery::patch::apply::Versions;

/// See the [module documentation](self).
#[derive(Debug, Clone, Copy)]
pub struct ResourceVersions<'a> {
    /// The resource.
    pub resource: &'a Resource,
    /// The schemas of a custom resource, in the order of its versions; none for a built-in kind.
    pub schemas: &'a [Arc<CustomSchema>],
}

impl<'a> ResourceVersions<'a> {
    /// The schema of the version at an index of [`Resource::versions`].
    pub fn type_ref(&self, version: usize) -> TypeRef<'a> {
        match (&self.resource.versions[version].shape, self.schemas.get(version)) {
            (Shape::Typed(ty), _) => TypeRef::Type(ty),
            (Shape::Structural(_), Some(schema)) => schema.root(),
            (Shape::Structural(_), None) => TypeRef::Deduced,
        }
    }

    fn find(&self, api_version: &str) -> Option<usize> {
        let has_version = |version: &Version| self.resource.api_version(version) == api_version;
        self.resource.versions.iter().position(has_version)
    }
}

impl<'a> Versions<TypeRef<'a>> for ResourceVersions<'a> {
    fn schema(&self, api_version: &str) -> Option<TypeRef<'a>> {
        self.find(api_version).map(|version| self.type_ref(version))
    }

    fn convert(&self, object: &Object, api_version: &str) -> Result<Object, String> {
        let mut object = object.clone();
        let storage = self.resource.api_version(self.resource.storage_version());
        if let Some(convert) = self.resource.strategy.convert {
            let from = object.api_version().to_owned();
            if from != storage {
                convert(&mut object, &from, &storage);
            }
            if api_version != storage {
                convert(&mut object, &storage, api_version);
            }
        }
        object.set_type(api_version, &self.resource.kind);
        Ok(object)
    }
}
