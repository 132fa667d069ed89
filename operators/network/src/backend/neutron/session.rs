//! [`Session`]: a token of Keystone and the address of Neutron.

use std::fmt;

use http::{Method, Uri};
use serde::Deserialize;
use serde_json::{Value, json};

use super::http_client::{HttpClient, Service, base_of};
use super::options::{NeutronOptions, OptionsError, Secret};
use crate::backend::BackendError;

/// See the [module documentation](self).
#[derive(Clone)]
pub(super) struct Session {
    /// The URL of Neutron without a path's last slash.
    pub(super) neutron: String,
    /// None if requests are not authenticated.
    pub(super) token: Option<String>,
    /// The project of the token. Without Keystone, there are no projects.
    pub(super) project: Option<String>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("neutron", &self.neutron).finish_non_exhaustive()
    }
}

/// How sessions begin.
#[derive(Debug)]
pub(super) enum Authentication {
    /// Without Keystone.
    None { neutron: String },
    /// With Keystone.
    Keystone { url: String, options: Box<NeutronOptions> },
}

impl Authentication {
    pub(super) fn new(options: &NeutronOptions) -> Result<Self, OptionsError> {
        let neutron = options.neutron_url.as_ref().map(neutron_base_of).transpose()?;
        let Some(auth_url) = &options.os_auth_url else {
            let neutron = neutron.ok_or(OptionsError::Missing("NEUTRON_URL or OS_AUTH_URL"))?;
            return Ok(Self::None { neutron });
        };
        let required = [
            ("OS_USERNAME", options.os_username.is_some()),
            ("OS_PASSWORD", options.os_password.is_some()),
            ("OS_PROJECT_NAME", options.os_project_name.is_some()),
        ];
        match (&options.os_application_credential_id, &options.os_application_credential_secret) {
            (Some(_), Some(_)) => {}
            (Some(_), None) => {
                return Err(OptionsError::Missing("OS_APPLICATION_CREDENTIAL_SECRET"));
            }
            (None, _) => {
                if let Some((missing, _)) = required.iter().find(|(_, is_set)| !is_set) {
                    return Err(OptionsError::Missing(missing));
                }
            }
        }
        let base = base_of(auth_url)?;
        let url = base.strip_suffix("/v3").unwrap_or(&base).to_owned();
        Ok(Self::Keystone { url, options: Box::new(options.clone()) })
    }

    /// Begins a session.
    pub(super) async fn begin(&self, http: &HttpClient) -> Result<Session, BackendError> {
        let (url, options) = match self {
            Self::None { neutron } => {
                return Ok(Session { neutron: neutron.clone(), token: None, project: None });
            }
            Self::Keystone { url, options } => (url, options),
        };
        let url = format!("{url}/v3/auth/tokens");
        let request = request(options);
        let response =
            http.send(Service::Keystone, Method::POST, &url, &[], Some(&request)).await?;
        let token = response.header("x-subject-token").map(str::to_owned);
        let issued: Issued = response.decode()?;
        let neutron = match &options.neutron_url {
            Some(url) => neutron_base_of(url).map_err(|error| unavailable(&error.to_string()))?,
            None => issued.token.network_url(options.os_region_name.as_deref())?,
        };
        if token.is_none() {
            return Err(unavailable("Keystone has sent no token"));
        }
        // Without one, objects of other projects could not be told apart.
        let Some(project) = issued.token.project else {
            return Err(BackendError::Refused("the token of Keystone has no project".to_owned()));
        };
        Ok(Session { neutron, token, project: Some(project.id) })
    }
}

fn request(options: &NeutronOptions) -> Value {
    let domain = |id: &Option<String>, name: &Option<String>| match id {
        Some(id) => json!({"id": id}),
        None => json!({"name": name.as_deref().unwrap_or("Default")}),
    };
    let user_domain = domain(&options.os_user_domain_id, &options.os_user_domain_name);
    let project_domain = domain(&options.os_project_domain_id, &options.os_project_domain_name);
    let id = &options.os_application_credential_id;
    if let (Some(id), Some(secret)) = (id, &options.os_application_credential_secret) {
        return json!({"auth": {"identity": {
            "methods": ["application_credential"],
            "application_credential": {"id": id, "secret": secret.reveal()},
        }}});
    }
    json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {
            "name": options.os_username, "domain": user_domain,
            "password": options.os_password.as_ref().map(Secret::reveal),
        }}},
        "scope": {"project": {"name": options.os_project_name, "domain": project_domain}},
    }})
}

#[derive(Deserialize)]
struct Issued {
    token: Token,
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    catalog: Vec<CatalogService>,
    project: Option<Project>,
}

#[derive(Deserialize)]
struct Project {
    id: String,
}

#[derive(Deserialize)]
struct CatalogService {
    #[serde(rename = "type")]
    type_: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
struct Endpoint {
    interface: String,
    #[serde(default)]
    region: Option<String>,
    url: String,
}

impl Token {
    fn network_url(&self, region: Option<&str>) -> Result<String, BackendError> {
        let services = self.catalog.iter().filter(|service| service.type_ == "network");
        let is_ours = |endpoint: &&Endpoint| {
            let is_in_region = region.is_none() || endpoint.region.as_deref() == region;
            endpoint.interface == "public" && is_in_region
        };
        let endpoint = services.flat_map(|service| &service.endpoints).find(is_ours);
        let Some(endpoint) = endpoint else {
            return Err(unavailable("Keystone's catalog has no public endpoint of type network"));
        };
        let url: Uri = endpoint
            .url
            .parse()
            .map_err(|_| unavailable("the URL of Neutron in the catalog is not valid"))?;
        neutron_base_of(&url).map_err(|error| unavailable(&error.to_string()))
    }
}

/// The URL of Neutron without the version of its API.
fn neutron_base_of(url: &Uri) -> Result<String, OptionsError> {
    let base = base_of(url)?;
    Ok(base.strip_suffix("/v2.0").unwrap_or(&base).to_owned())
}

fn unavailable(why: &str) -> BackendError {
    BackendError::Unavailable(why.to_owned())
}
