//! The local socket on Unix: values without frames, limits, the socket file, stopping.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use rpc::server::ServeError;
use rpc::server::ipc::{self, IpcServer};
use rpc::{Limits, Modules};
use tempfile::TempDir;

use crate::server::clients::unix::IpcClient;
use crate::server::harness::{ANSWER, CALL, PATIENCE, dispatcher, slow_answer, slow_call};

const SECRET_CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"admin_secret"}"#;

fn start(limits: Limits, path: &std::path::Path) -> Result<IpcServer, ServeError> {
    ipc::start(dispatcher(limits, &Modules::all()), path)
}

/// A server in a new folder, and a client of it.
async fn serve(limits: Limits) -> (TempDir, IpcServer, IpcClient) {
    let folder = TempDir::new().expect("a temporary directory");
    let server = start(limits, &folder.path().join("n.ipc")).expect("a free path");
    let client = IpcClient::connect(server.path()).await;
    (folder, server, client)
}

#[tokio::test]
async fn values_need_no_frames() {
    let (_folder, server, mut client) = serve(Limits::default()).await;
    client.send(format!("{CALL}{CALL}\n")).await;
    assert_eq!(
        [client.line().await, client.line().await],
        [ANSWER, ANSWER],
        "two in one write"
    );

    let (half, rest) = CALL.split_at(CALL.len() / 2);
    client.send(half).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    client.send(format!("{rest} \n\t[{CALL}")).await;
    assert_eq!(client.line().await, ANSWER, "half, then the rest");
    assert_eq!(client.ask("]").await, format!("[{ANSWER}]"), "a batch");

    let notification = r#"{"jsonrpc":"2.0","method":"net_version"}"#;
    client.send(format!("{notification}{CALL}")).await;
    assert_eq!(client.line().await, ANSWER, "a notification has no answer");
    server.stop().await;
}

#[tokio::test]
async fn a_slow_call_delays_no_other() {
    let (_folder, server, mut client) = serve(Limits::default()).await;
    client
        .send(format!("{}{CALL}{}", slow_call(2), slow_call(2)))
        .await;
    // A client that sends no more still gets its answers.
    client.stop_sending().await;
    let answers = client.read_to_end().await;
    let answers: Vec<_> = answers.lines().collect();
    assert_eq!(answers, [ANSWER, &slow_answer(2), &slow_answer(2)]);
    server.stop().await;
}

#[tokio::test]
async fn calls_before_invalid_bytes_are_answered() {
    let (_folder, server, mut client) = serve(Limits::default()).await;
    client.send(format!("{}\u{1}{CALL}", slow_call(2))).await;
    let answers = client.read_to_end().await;
    let answers: Vec<_> = answers.lines().collect();
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert!(
        answers[0].contains(r#""result":"slow""#) && answers[1].contains("-32700"),
        "{answers:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn every_module_is_there() {
    let (_folder, server, mut client) = serve(Limits::default()).await;
    assert_eq!(
        client.ask(SECRET_CALL).await,
        r#"{"jsonrpc":"2.0","id":1,"result":"secret"}"#
    );
    server.stop().await;
}

#[tokio::test]
async fn invalid_input_is_answered() {
    let limits = Limits {
        body_len_max: 1000,
        ..Limits::default()
    };
    let (_folder, server, mut client) = serve(limits).await;
    let parse_error =
        |answer: &str| answer.starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"#);

    // The ends of these bad values can be found, so the server continues to read.
    client.send(format!("nonsense {{\"a\":tru}} {CALL}")).await;
    assert!(parse_error(&client.line().await));
    assert!(parse_error(&client.line().await));
    assert_eq!(client.line().await, ANSWER);

    // A byte that begins no JSON value: the server answers once and closes.
    client.send(format!("\u{0}{CALL}")).await;
    let rest = client.read_to_end().await;
    assert!(parse_error(&rest) && rest.lines().count() == 1, "{rest}");

    // Values that are too deep or too long.
    for (bad, code) in [
        ("[".repeat(900), -32700),
        (format!("\"{}", "x".repeat(2000)), -32600),
    ] {
        let mut client = IpcClient::connect(server.path()).await;
        client.send(bad).await;
        let answer = client.read_to_end().await;
        assert!(answer.contains(&code.to_string()), "{answer}");
    }

    // The stream ends within a value.
    let mut client = IpcClient::connect(server.path()).await;
    client.send(&CALL[..20]).await;
    client.stop_sending().await;
    assert!(parse_error(&client.read_to_end().await));
    server.stop().await;
}

#[tokio::test]
async fn connections_are_bounded() {
    let limits = Limits {
        ipc_connections_max: 1,
        ..Limits::default()
    };
    let (_folder, server, mut first) = serve(limits).await;
    first.send(slow_call(1)).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    loop {
        let mut second = IpcClient::connect(server.path()).await;
        if second.try_ask(CALL).await.is_empty() {
            break; // There is no place, because the first connection waits for an answer.
        }
        assert!(begun.elapsed() < PATIENCE, "the first call does not run");
    }
    assert_eq!(first.line().await, slow_answer(1));
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut third = IpcClient::connect(server.path()).await;
    assert_eq!(third.ask(CALL).await, ANSWER);
    assert_eq!(first.read_to_end().await, "", "the idle connection made room");
    server.stop().await;
}

#[tokio::test]
async fn the_socket_belongs_to_its_server() {
    let (folder, server, mut idle) = serve(Limits::default()).await;
    let path = server.path().to_owned();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        1,
        "there is no other file beside the socket"
    );

    let second = start(Limits::default(), &path);
    let message = second.err().expect("the path is in use").to_string();
    assert!(message.contains("another process listens"), "{message}");
    assert_eq!(idle.ask(CALL).await, ANSWER);

    let begun = Instant::now();
    server.stop().await;
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "an idle connection does not delay the end"
    );
    assert!(!path.exists());
    assert_eq!(idle.read_to_end().await, "");
}

#[tokio::test]
async fn stale_sockets_are_replaced_and_files_are_not() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("n.ipc");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "the socket of a process that has died");
    let server = start(Limits::default(), &path).unwrap();
    assert_eq!(IpcClient::connect(&path).await.ask(CALL).await, ANSWER);
    server.stop().await;

    std::fs::write(&path, "precious").unwrap();
    let refused = start(Limits::default(), &path);
    let message = refused.err().expect("the path is a file").to_string();
    assert!(message.contains("not a socket"), "{message}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");

    let in_no_folder = folder.path().join("missing/n.ipc");
    assert!(start(Limits::default(), &in_no_folder).is_err());
}
