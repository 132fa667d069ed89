//! `sampan image push` and `login`, with a real registry and with one that refuses.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::programs::{
    BUILD, DockerRegistry, PASSWORD, USER, are_installed, project_with_program, run,
};
use keel::Tasks;
use machinery::Value;

/// Pushes without the credentials of the user who runs the tests.
fn push(host: &str) -> String {
    format!("image push --project DIR --docker-config DIR/docker -t {host}/team/demo:v1")
}

#[tokio::test]
async fn a_pushed_image_is_found_by_skopeo_and_used_by_deploy() {
    if !are_installed(&["docker-registry", "skopeo"]) {
        return;
    }
    let registry = DockerRegistry::start().await;
    let project = project_with_program();
    let built = project.run(BUILD).unwrap();
    let digest = built.lines().next().unwrap().split_once('@').unwrap().1;
    let pushed = project.run_with(&push(&registry.host), "").await.unwrap();
    let name = format!("{}/team/demo:v1@{digest}", registry.host);
    assert_eq!(pushed, format!("{name}\nnext: sampan deploy\n"));
    let source = format!("docker://{}/team/demo:v1", registry.host);
    let inspected = run("skopeo", &["inspect", "--tls-verify=false", &source]);
    let inspected: Value = serde_json::from_str(&inspected).unwrap();
    assert_eq!(inspected["Digest"], digest);
    let copy = format!("dir:{}", project.root().join("copy").display());
    run("skopeo", &["copy", "--insecure-policy", "--src-tls-verify=false", &source, &copy]);
    let record: Value = serde_json::from_str(&project.read("target/sampan/pushed.json")).unwrap();
    assert_eq!(record["image"], name.as_str());
    // What is there is not sent again.
    assert_eq!(project.run_with(&push(&registry.host), "").await.unwrap(), pushed);
}

#[tokio::test]
async fn a_registry_with_a_password_needs_a_login() {
    if !are_installed(&["docker-registry"]) {
        return;
    }
    let registry = DockerRegistry::start_with_password().await;
    let host = &registry.host;
    let project = project_with_program();
    project.run(BUILD).unwrap();
    let error = project.run_with(&push(host), "").await.unwrap_err();
    assert!(error.contains(&format!("log in first: sampan image login {host}")), "{error}");
    let with_password = format!("{} -u {USER} --password-stdin", push(host));
    let error = project.run_with(&with_password, "wrong\n").await.unwrap_err();
    assert!(error.contains("401") && error.contains("credentials of me"), "{error}");
    project.run_with(&with_password, &format!("{PASSWORD}\n")).await.unwrap();

    let login =
        format!("image login {host} --docker-config DIR/docker --username {USER} --password-stdin");
    let error = project.run_with(&login, "wrong").await.unwrap_err();
    assert!(error.contains("does not accept the credentials of me"), "{error}");
    assert!(!project.root().join("docker").exists());
    let printed = project.run_with(&login, PASSWORD).await.unwrap();
    assert_eq!(printed, format!("logged in to {host} as me; stored in DIR/docker/config.json\n"));
    project.run_with(&push(host), "").await.unwrap();
    assert!(project.run_with(&login, "\n").await.unwrap_err().contains("has no password"));
    let doctor =
        format!("doctor --kubeconfig DIR/none --docker-config DIR/docker --registry {host}");
    let report = project.run_with(&doctor, "").await.unwrap();
    assert!(report.contains(&format!("push     ok       registry: {host} accepts me")), "{report}");
}

/// A registry that responds to each request as a test decides: a status and further lines of the head,
/// or nothing, which ends the connection.
struct FakeRegistry {
    host: String,
    _tasks: Tasks,
}

type Respond = dyn Fn(&str) -> Option<String> + Send + Sync;

impl FakeRegistry {
    async fn start(respond: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let tasks = Tasks::new();
        tasks.spawn("registry", async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                // A connection that ends early is what some tests want.
                let _ = Self::serve(&mut stream, &respond).await;
            }
        });
        Self { host, _tasks: tasks }
    }

    /// Reads the head of a request and the beginning of its body, and responds.
    async fn serve(stream: &mut TcpStream, respond: &Respond) -> std::io::Result<()> {
        let mut bytes = vec![0; 1 << 16];
        let mut length = 0;
        while !bytes[..length].windows(4).any(|window| window == b"\r\n\r\n") {
            let read = stream.read(&mut bytes[length..]).await?;
            if read == 0 {
                return Ok(());
            }
            length += read;
        }
        let head = String::from_utf8_lossy(&bytes[..length]).into_owned();
        let Some(answer) = respond(head.lines().next().unwrap_or_default()) else { return Ok(()) };
        let (head, body) = answer.split_once("\n\n").unwrap_or((&answer, ""));
        let head = head.replace('\n', "\r\n");
        let length = body.len();
        let text = format!(
            "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await
    }
}

/// The error of a push to a registry that responds in this way.
async fn refused(respond: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> String {
    let registry = FakeRegistry::start(respond).await;
    let project = project_with_program();
    project.run(BUILD).unwrap();
    let error = project.run_with(&push(&registry.host), "").await.unwrap_err();
    assert!(!project.root().join("target/sampan/pushed.json").exists(), "{error}");
    let name = format!("cannot push {}/team/demo:v1: ", registry.host);
    error.strip_prefix(&name).expect(&error).replace(&registry.host, "HOST")
}

#[tokio::test]
async fn what_a_registry_refuses_is_explained() {
    let status = |status: &'static str| move |_: &str| Some(status.to_owned());
    let error = refused(status("401 Unauthorized")).await;
    assert!(error.contains("log in first: sampan image login HOST"), "{error}");
    let error = refused(status("403 Forbidden")).await;
    assert!(error.contains("403 Forbidden; it allows this to nobody"), "{error}");
    let error = refused(status("500 Internal Server Error")).await;
    assert!(error.contains("500 Internal Server Error; its log may say why"), "{error}");
    let error = refused(|line| {
        let error = "403 Forbidden\n\n{\"errors\":[{\"message\":\"read only\"}]}";
        Some(if line.starts_with("HEAD") { "404 Not Found" } else { error }.to_owned())
    });
    assert!(error.await.starts_with("HOST responded 403 Forbidden: read only; "));
    let error = refused(status("200 OK")).await;
    assert!(error.contains("HOST does not respond as a registry"), "{error}");
}

#[tokio::test]
async fn a_registry_that_is_not_there_is_an_error_at_once() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = free.local_addr().unwrap().to_string();
    drop(free);
    let project = project_with_program();
    project.run(BUILD).unwrap();
    let error = project.run_with(&push(&host), "").await.unwrap_err();
    assert!(error.contains(&format!("cannot connect to {host}: Connection refused")), "{error}");
    assert!(error.contains("is the registry running"), "{error}");
}

/// What a registry responds that has no blobs yet and gets its uploads from `put`.
fn accept_uploads(line: &str, put: impl Fn() -> Option<String>) -> Option<String> {
    match line.split(' ').next() {
        Some("HEAD") => Some("404 Not Found".to_owned()),
        Some("POST") => Some("202 Accepted\nlocation: /upload?state=1".to_owned()),
        _ => put(),
    }
}

#[tokio::test]
async fn an_interrupted_upload_is_sent_again() {
    let count = Arc::new(AtomicUsize::new(0));
    let tries = Arc::clone(&count);
    let registry = FakeRegistry::start(move |line| {
        accept_uploads(line, || {
            assert!(
                line.contains("/upload?state=1&digest=sha256%3A") || line.contains("/manifests/")
            );
            let is_first = tries.fetch_add(1, Ordering::SeqCst) == 0;
            (!is_first).then(|| "201 Created".to_owned())
        })
    });
    let registry = registry.await;
    let project = project_with_program();
    project.run(BUILD).unwrap();
    project.run_with(&push(&registry.host), "").await.unwrap();
    // Two layers, the configuration and the manifest.
    assert_eq!(count.load(Ordering::SeqCst), 1 + 4);
}

#[tokio::test]
async fn a_registry_that_disappears_during_an_upload_is_an_error() {
    let error = refused(|line| accept_uploads(line, || None)).await;
    assert!(error.contains("the connection to HOST was interrupted"), "{error}");
    assert!(error.contains("the same command continues"), "{error}");
}

#[tokio::test]
async fn a_blob_goes_to_no_place_that_is_not_one() {
    let error = refused(|line| match line.split(' ').next() {
        Some("HEAD") => Some("404 Not Found".to_owned()),
        _ => Some("202 Accepted\nlocation: ftp://elsewhere/".to_owned()),
    });
    assert!(error.await.contains("\"ftp://elsewhere/\" is no place for a blob"));
}

#[tokio::test]
async fn a_token_is_requested_with_the_password_and_used() {
    let registry = FakeTokens::start().await;
    let project = project_with_program();
    project.run(BUILD).unwrap();
    let command = format!("{} -u {USER} --password-stdin", push(&registry.host));
    project.run_with(&command, PASSWORD).await.unwrap();
}

/// A registry that accepts a token only, and issues it for a password.
struct FakeTokens {
    host: String,
    _tasks: Tasks,
}

impl FakeTokens {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (tasks, own) = (Tasks::new(), host.clone());
        tasks.spawn("registry", async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut bytes = vec![0; 1 << 16];
                let length = stream.read(&mut bytes).await.unwrap_or(0);
                let head = String::from_utf8_lossy(&bytes[..length]).to_lowercase();
                let (head, body) = Self::answer(&head, &own);
                let length = body.len();
                let text = format!(
                    "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
                );
                // The client may have ended the connection.
                let _ = stream.write_all(text.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        Self { host, _tasks: tasks }
    }

    fn answer(head: &str, host: &str) -> (String, &'static str) {
        if head.starts_with("get /token?service=s&scope=repository%3ateam%2fdemo%3apull%2cpush ") {
            // me:secret
            assert!(head.contains("authorization: basic bwu6c2vjcmv0"), "{head}");
            return ("200 OK".to_owned(), "{\"token\": \"t\"}");
        }
        if !head.contains("authorization: bearer t") {
            let realm = format!("http://{host}/token");
            let challenge = format!("Bearer realm=\"{realm}\",service=\"s\"");
            return (format!("401 Unauthorized\r\nwww-authenticate: {challenge}"), "");
        }
        match head.split(' ').next() {
            Some("head") => ("200 OK".to_owned(), ""),
            _ => ("201 Created".to_owned(), ""),
        }
    }
}

#[test]
fn a_push_needs_an_image_and_a_registry() {
    let project = project_with_program();
    let refused = |command: &str| project.run(command).unwrap_err();
    assert!(refused("image push --project DIR").contains("build one with `sampan image build`"));
    project.run(BUILD).unwrap();
    assert!(refused("image push --project DIR").contains("--tag REGISTRY/operator-demo:0.1.0"));
    assert!(refused("image push --project DIR -u me").contains("--password-stdin"));
    assert!(refused("image login https://registry.example.com/").contains("without https://"));
    let docker = project.root().join("docker");
    fs::create_dir(&docker).unwrap();
    fs::write(Path::new(&docker).join("config.json"), "{").unwrap();
    let error = refused(&push("registry.example.com"));
    assert!(error.contains("DIR/docker/config.json is not a JSON object"), "{error}");
}
