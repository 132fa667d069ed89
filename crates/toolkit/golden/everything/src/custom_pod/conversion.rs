//! The versions of `CustomPod`, and the conversion between them: each is converted from and to the
//! stored one.

use runtime::Versions;

use super::CustomPod;

/// The versions. The stored one is the one without `storage = false` in its `#[resource(…)]`.
#[derive(Versions)]
pub enum CustomPodVersions {
    /// v1
    #[versions(storage)]
    V1(CustomPod),
    /// v2
    V2(super::v2::CustomPod),
    /// v3
    V3(super::v3::CustomPod),
    // sampan:versions of CustomPod
}

impl From<CustomPod> for super::v2::CustomPod {
    fn from(object: CustomPod) -> Self {
        let spec = super::v2::CustomPodSpec { replicas: object.spec.replicas };
        Self { metadata: object.metadata, spec, status: object.status }
    }
}

impl From<super::v2::CustomPod> for CustomPod {
    fn from(object: super::v2::CustomPod) -> Self {
        let spec = super::CustomPodSpec { replicas: object.spec.replicas };
        Self { metadata: object.metadata, spec, status: object.status }
    }
}

impl From<CustomPod> for super::v3::CustomPod {
    fn from(object: CustomPod) -> Self {
        let spec = super::v3::CustomPodSpec { replicas: object.spec.replicas };
        Self { metadata: object.metadata, spec, status: object.status }
    }
}

impl From<super::v3::CustomPod> for CustomPod {
    fn from(object: super::v3::CustomPod) -> Self {
        let spec = super::CustomPodSpec { replicas: object.spec.replicas };
        Self { metadata: object.metadata, spec, status: object.status }
    }
}

// sampan:conversions of CustomPod
