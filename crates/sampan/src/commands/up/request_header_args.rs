//! [`RequestHeaderArgs`]: the flags for proxies that authenticate users.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use apiserver::auth::authentication::client_authorities::ClientAuthorities;
use apiserver::auth::authentication::request_header::RequestHeaderSettings;

/// See the [module documentation](self).
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_field_names, reason = "the fields have the names of the flags")]
pub(crate) struct RequestHeaderArgs {
    /// File of certificate authorities in PEM for the client certificates of proxies that authenticate
    /// users and name them in headers; the headers of all other clients are ignored. It is read again
    /// when it changes
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<PathBuf>,
    /// Common names of the proxies' certificates; if empty, every certificate of
    /// `--requestheader-client-ca-file` is that of a proxy
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        requires = "requestheader_client_ca_file"
    )]
    requestheader_allowed_names: Vec<String>,
    /// Headers with the user name, such as `X-Remote-User`
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    requestheader_username_headers: Vec<http::HeaderName>,
    /// Headers with the uid of the user; `X-Remote-Uid` must be one of them
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    requestheader_uid_headers: Vec<http::HeaderName>,
    /// Headers with the groups of the user, such as `X-Remote-Group`
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    requestheader_group_headers: Vec<http::HeaderName>,
    /// Prefixes of headers with further attributes of the user, such as `X-Remote-Extra-`
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    requestheader_extra_headers_prefix: Vec<String>,
}

impl RequestHeaderArgs {
    /// Reads the file of authorities; None if there is none.
    pub(super) fn settings(&self) -> Result<Option<Arc<RequestHeaderSettings>>> {
        let uid_headers = self.requestheader_uid_headers.clone();
        if !uid_headers.is_empty() && !uid_headers.iter().any(|it| it == "x-remote-uid") {
            bail!(
                "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid \
                 header - API aggregation will not work"
            );
        }
        let prefixes = &self.requestheader_extra_headers_prefix;
        // Every header begins with an empty prefix.
        if prefixes.iter().any(|it| it.trim().is_empty()) {
            bail!("empty value in \"requestheader-extra-headers-prefix\"");
        }
        let Some(path) = &self.requestheader_client_ca_file else { return Ok(None) };
        Ok(Some(Arc::new(RequestHeaderSettings {
            authorities: ClientAuthorities::read(path)
                .context("name a file of certificates with --requestheader-client-ca-file")?,
            allowed_names: self.requestheader_allowed_names.clone(),
            username_headers: self.requestheader_username_headers.clone(),
            uid_headers,
            group_headers: self.requestheader_group_headers.clone(),
            extra_prefixes: prefixes.iter().map(|it| it.trim().to_ascii_lowercase()).collect(),
        })))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: RequestHeaderArgs,
    }

    fn settings(flags: &[&str]) -> Result<Option<Arc<RequestHeaderSettings>>> {
        Line::try_parse_from([&["up"], flags].concat())?.args.settings()
    }

    #[test]
    fn flags_have_the_forms_of_kube_apiserver() {
        let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../apiserver/tests/keys/sec1.crt");
        let found = settings(&[
            &format!("--requestheader-client-ca-file={keys}"),
            "--requestheader-allowed-names=a,b",
            "--requestheader-username-headers=X-Remote-User,X-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        ]);
        let found = found.unwrap().unwrap();
        assert_eq!(found.allowed_names, ["a", "b"]);
        assert_eq!(found.username_headers, ["x-remote-user", "x-user"]);
        assert_eq!(found.extra_prefixes, ["x-remote-extra-"]);
        assert!(settings(&[]).unwrap().is_none());
    }

    #[test]
    fn headers_that_cannot_work_are_refused() {
        assert!(settings(&["--requestheader-uid-headers=X-Uid"]).is_err());
        assert!(settings(&["--requestheader-extra-headers-prefix= "]).is_err());
        assert!(settings(&["--requestheader-username-headers=a b"]).is_err());
        assert!(settings(&["--requestheader-allowed-names=a"]).is_err());
    }
}
