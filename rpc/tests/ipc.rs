//! The local channel over a real unix socket, in raw bytes.
#![cfg(unix)]

#[allow(dead_code, reason = "the HTTP tests use the rest")]
mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rpc::server::ipc::{self, IpcServer};
use rpc::{Limits, Modules};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use common::{PATIENCE, dispatcher, read_to_end};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"net_version"}"#;
const SLOW_CALL: &str = r#"{"jsonrpc":"2.0","id":2,"method":"mc_slow"}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":"100"}"#;

fn serve(limits: Limits) -> (TempDir, IpcServer) {
    let dir = TempDir::new().expect("a temporary directory");
    let server = ipc::start(dispatcher(limits, &Modules::all()), &dir.path().join("n.ipc"));
    (dir, server.expect("a free path"))
}

async fn connect(path: &Path) -> BufReader<UnixStream> {
    BufReader::new(UnixStream::connect(path).await.expect("the server listens"))
}

async fn line(stream: &mut BufReader<UnixStream>) -> String {
    let mut line = String::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_line(&mut line));
    read.await.expect("an answer in time").expect("an answer");
    line.trim_end().to_owned()
}

#[tokio::test]
async fn values_need_no_frames() {
    let (_dir, server) = serve(Limits::default());
    let mut stream = connect(server.path()).await;

    stream
        .write_all(format!("{CALL}{CALL}\n").as_bytes())
        .await
        .unwrap();
    assert_eq!(
        [line(&mut stream).await, line(&mut stream).await],
        [ANSWER, ANSWER],
        "two in one write"
    );

    let (half, rest) = CALL.split_at(CALL.len() / 2);
    stream.write_all(half.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    stream
        .write_all(format!("{rest} \n\t[{CALL}").as_bytes())
        .await
        .unwrap();
    assert_eq!(line(&mut stream).await, ANSWER, "half, then the rest");
    stream.write_all(b"]").await.unwrap();
    assert_eq!(line(&mut stream).await, format!("[{ANSWER}]"), "a batch");

    let notification = r#"{"jsonrpc":"2.0","method":"net_version"}"#;
    stream
        .write_all(format!("{notification}{CALL}").as_bytes())
        .await
        .unwrap();
    assert_eq!(line(&mut stream).await, ANSWER, "a notification has no answer");
    server.stop().await;
}

#[tokio::test]
async fn a_slow_call_holds_up_no_other() {
    let (_dir, server) = serve(Limits::default());
    let mut stream = connect(server.path()).await;
    stream
        .write_all(format!("{SLOW_CALL}{CALL}{SLOW_CALL}").as_bytes())
        .await
        .unwrap();
    // Whoever sends no more is answered all the same.
    stream.shutdown().await.unwrap();
    let answers = read_to_end(&mut stream).await;
    let answers: Vec<_> = answers.lines().collect();
    let slow = r#"{"jsonrpc":"2.0","id":2,"result":"slow"}"#;
    assert_eq!(answers, [ANSWER, slow, slow]);
    server.stop().await;
}

#[tokio::test]
async fn what_came_before_garbage_is_answered() {
    let (_dir, server) = serve(Limits::default());
    let mut stream = connect(server.path()).await;
    stream
        .write_all(format!("{SLOW_CALL}\u{1}{CALL}").as_bytes())
        .await
        .unwrap();
    let answers = read_to_end(&mut stream).await;
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
    let (_dir, server) = serve(Limits::default());
    let mut stream = connect(server.path()).await;
    stream
        .write_all(br#"{"jsonrpc":"2.0","id":1,"method":"admin_secret"}"#)
        .await
        .unwrap();
    assert_eq!(
        line(&mut stream).await,
        r#"{"jsonrpc":"2.0","id":1,"result":"secret"}"#
    );
    server.stop().await;
}

#[tokio::test]
async fn garbage_is_answered() {
    let (_dir, server) = serve(Limits {
        body_len_max: 1000,
        ..Limits::default()
    });
    let parse_error =
        |answer: &str| answer.starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"#);

    // Bad values with clear ends: the stream goes on.
    let mut stream = connect(server.path()).await;
    stream
        .write_all(format!("nonsense {{\"a\":tru}} {CALL}").as_bytes())
        .await
        .unwrap();
    assert!(parse_error(&line(&mut stream).await));
    assert!(parse_error(&line(&mut stream).await));
    assert_eq!(line(&mut stream).await, ANSWER);

    // A byte that can begin nothing: one answer and the end.
    stream.write_all(format!("\u{0}{CALL}").as_bytes()).await.unwrap();
    let rest = read_to_end(&mut stream).await;
    assert!(parse_error(&rest) && rest.lines().count() == 1, "{rest}");

    // Too deep and too long.
    for (bad, code) in [
        ("[".repeat(900), -32700),
        (format!("\"{}", "x".repeat(2000)), -32600),
    ] {
        let mut stream = connect(server.path()).await;
        stream.write_all(bad.as_bytes()).await.unwrap();
        let answer = read_to_end(&mut stream).await;
        assert!(answer.contains(&code.to_string()), "{answer}");
    }

    // The stream ends within a value.
    let mut stream = connect(server.path()).await;
    stream.write_all(&CALL.as_bytes()[..20]).await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(parse_error(&read_to_end(&mut stream).await));
    server.stop().await;
}

#[tokio::test]
async fn connections_are_bounded() {
    let (_dir, server) = serve(Limits {
        ipc_connections_max: 1,
        ..Limits::default()
    });
    let mut first = connect(server.path()).await;
    first.write_all(CALL.as_bytes()).await.unwrap();
    assert_eq!(line(&mut first).await, ANSWER);
    assert_eq!(
        read_to_end(&mut connect(server.path()).await).await,
        "",
        "no place for a second"
    );
    drop(first);
    let begun = Instant::now();
    loop {
        let mut next = connect(server.path()).await;
        let _ = next.write_all(CALL.as_bytes()).await;
        let mut answer = String::new();
        if next.read_line(&mut answer).await.is_ok_and(|len| len > 0) {
            break assert_eq!(answer.trim_end(), ANSWER);
        }
        assert!(begun.elapsed() < PATIENCE, "the place is not given back");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_socket_belongs_to_its_server() {
    let (dir, server) = serve(Limits::default());
    let path = server.path().to_owned();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        1,
        "nothing lies beside it"
    );

    let second = ipc::start(dispatcher(Limits::default(), &Modules::all()), &path);
    let message = second.err().expect("in use").to_string();
    assert!(message.contains("another process listens"), "{message}");
    let mut stream = connect(&path).await;
    stream.write_all(CALL.as_bytes()).await.unwrap();
    assert_eq!(line(&mut stream).await, ANSWER);

    let begun = Instant::now();
    server.stop().await;
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "an idle connection does not delay the end"
    );
    assert!(!path.exists());
    assert_eq!(read_to_end(&mut stream).await, "");
}

#[tokio::test]
async fn stale_sockets_are_replaced_and_files_are_not() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("n.ipc");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "the socket of a process that has died");
    let server = ipc::start(dispatcher(Limits::default(), &Modules::all()), &path).unwrap();
    let mut stream = connect(&path).await;
    stream.write_all(CALL.as_bytes()).await.unwrap();
    assert_eq!(line(&mut stream).await, ANSWER);
    server.stop().await;

    std::fs::write(&path, "precious").unwrap();
    let refused = ipc::start(dispatcher(Limits::default(), &Modules::all()), &path);
    assert!(refused.err().expect("a file").to_string().contains("no socket"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");

    let nowhere = dir.path().join("missing/n.ipc");
    assert!(ipc::start(dispatcher(Limits::default(), &Modules::all()), &nowhere).is_err());
}
