//! The guards of the HTTP and the WebSocket server: TLS, tokens, rates.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use daemon::tls::{ServerTls, TlsFiles};
use daemon::{ClientRates, SecretDigest, TokenRate};
use futures_util::{SinkExt, StreamExt};
use hmac::{Hmac, KeyInit, Mac};
use rpc::access::{TokenKey, TokenRule, TokenSecret, Tokens};
use rpc::server::http::{self, HttpOptions, SharedWs};
use rpc::server::{Guards, TcpServer};
use rpc::{Limits, Modules};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::ClientRequestBuilder;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::server::clients::WsClient;
use crate::server::harness::{
    ANSWER, CALL, PATIENCE, bare, check_status, dispatcher, exchange, post, read_to_end, split,
};

const TOKEN: &str = "Bearer the-token-of-one";
const MC_CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_slow","params":[]}"#;
const NOT_AVAILABLE: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"the method eth_slow does not exist/is not available"}}"#;

fn rule(name: &str, token: Option<&str>, modules: &str) -> TokenRule {
    TokenRule {
        name: name.to_owned(),
        secret: token.map_or(TokenSecret::None, |token| {
            TokenSecret::Bearer(SecretDigest::of(token.trim_start_matches("Bearer ")))
        }),
        modules: modules.parse().expect("modules"),
        methods: Default::default(),
        rate: None,
        connections_max: None,
    }
}

fn tokens(rules: Vec<TokenRule>) -> Guards {
    Guards {
        tokens: Some(Arc::new(Tokens::new(rules))),
        ..Guards::default()
    }
}

fn rate(per_second: f64, burst: f64) -> Guards {
    Guards {
        rates: Some(Arc::new(ClientRates::new(TokenRate { burst, per_second }))),
        ..Guards::default()
    }
}

/// HTTP and WebSockets on one port.
async fn serve(guards: &Guards, limits: Limits) -> TcpServer {
    let modules = Modules::default();
    let options = HttpOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        cors: "https://a.example".parse().expect("an origin"),
        guards: guards.clone(),
        ..HttpOptions::default()
    };
    let shared = SharedWs {
        dispatcher: dispatcher(limits.clone(), &modules),
        origins: Default::default(),
    };
    let server = http::start_with_ws(dispatcher(limits, &modules), &options, Some(shared));
    server.await.expect("a free port")
}

/// A POST of `body` with these header lines, each with its end.
fn request(body: &str, headers: &str) -> String {
    let plain = String::from_utf8(post(body)).expect("text");
    plain.replacen(
        "Connection: close\r\n",
        &format!("Connection: close\r\n{headers}"),
        1,
    )
}

fn with_token(body: &str, token: &str) -> String {
    request(body, &format!("Authorization: {token}\r\n"))
}

/// Opens a WebSocket with this token. The error is the status of the refusal.
async fn open_ws(address: SocketAddr, token: Option<&str>) -> Result<WsClient, u16> {
    let mut request = ClientRequestBuilder::new(format!("ws://{address}/").parse().expect("a URL"));
    if let Some(token) = token {
        request = request.with_header("Authorization", token);
    }
    let stream = TcpStream::connect(address).await.expect("the server listens");
    match tokio_tungstenite::client_async(request, stream).await {
        Ok((socket, _)) => Ok(WsClient(socket)),
        Err(Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("no WebSocket: {error}"),
    }
}

#[tokio::test]
async fn calls_over_http_need_a_token() {
    let server = serve(&tokens(vec![rule("one", Some(TOKEN), "net")]), Limits::default()).await;
    let to = server.addresses()[0];
    let refused = check_status(to, &request(CALL, ""), 401).await;
    assert!(
        refused.contains("\r\nwww-authenticate: Bearer realm=\"JSON-RPC\"\r\n"),
        "{refused}"
    );
    for wrong in [
        "Bearer the-token-of-two",
        "Bearer",
        "Digest x",
        "Basic dHdvOnRoZS10b2tlbi1vZi1vbmU=",
    ] {
        let refused = check_status(to, &with_token(CALL, wrong), 401).await;
        assert!(refused.contains("error=\"invalid_token\"\r\n"), "{refused}");
    }
    let twice = format!("Authorization: {TOKEN}\r\nAuthorization: {TOKEN}\r\n");
    check_status(to, &request(CALL, &twice), 401).await;
    // `one:the-token-of-one`.
    for right in [
        TOKEN,
        "bearer  the-token-of-one",
        "Basic b25lOnRoZS10b2tlbi1vZi1vbmU=",
    ] {
        let answer = exchange(to, with_token(CALL, right).as_bytes()).await;
        assert_eq!(split(&answer), (200, ANSWER), "{right}");
    }
    let answer = exchange(to, with_token(MC_CALL, TOKEN).as_bytes()).await;
    assert_eq!(split(&answer), (200, NOT_AVAILABLE), "it is outside of the list");
    let modules = r#"{"jsonrpc":"2.0","id":1,"method":"rpc_modules"}"#;
    let answer = exchange(to, with_token(modules, TOKEN).as_bytes()).await;
    let expected = r#"{"jsonrpc":"2.0","id":1,"result":{"net":"1.0","rpc":"1.0"}}"#;
    assert_eq!(split(&answer).1, expected);
    server.stop().await;
}

#[tokio::test]
async fn what_is_no_call_needs_no_token() {
    let server = serve(&tokens(vec![rule("one", Some(TOKEN), "net")]), Limits::default()).await;
    let to = server.addresses()[0];
    for path in ["/", "/health", "/ready"] {
        check_status(to, &bare("GET", path), 200).await;
    }
    let preflight = "OPTIONS / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nOrigin: https://a.example\r\n\
                     Access-Control-Request-Method: POST\r\n\
                     Access-Control-Request-Headers: authorization,content-type\r\n\r\n";
    let allowed = check_status(to, preflight, 204).await;
    assert!(
        allowed.contains("access-control-allow-headers: content-type, authorization\r\n"),
        "{allowed}"
    );
    // A page must be able to read that its token is wrong.
    let refused = check_status(to, &request(CALL, "Origin: https://a.example\r\n"), 401).await;
    assert!(
        refused.contains("access-control-allow-origin: https://a.example\r\n"),
        "{refused}"
    );
    let foreign = request(CALL, "").replace("localhost", "rebound.example");
    check_status(to, &foreign, 403).await;
    server.stop().await;
}

#[tokio::test]
async fn a_websocket_has_the_token_of_its_handshake() {
    let guards = tokens(vec![
        rule("one", Some(TOKEN), "net"),
        rule("two", Some("Bearer the-token-of-two"), "mc"),
    ]);
    let server = serve(&guards, Limits::default()).await;
    let to = server.addresses()[0];
    assert_eq!(open_ws(to, None).await.err(), Some(401));
    assert_eq!(open_ws(to, Some("Bearer x")).await.err(), Some(401));
    let mut one = open_ws(to, Some(TOKEN)).await.expect("a WebSocket");
    let mut two = open_ws(to, Some("Bearer the-token-of-two"))
        .await
        .expect("a WebSocket");
    assert_eq!(one.ask(CALL).await, ANSWER);
    assert_eq!(one.ask(MC_CALL).await, NOT_AVAILABLE);
    assert!(two.ask(CALL).await.contains("-32601"));
    let tokens = guards.tokens.as_ref().expect("tokens");
    tokens.replace(vec![rule("two", Some("Bearer the-token-of-two"), "mc")]);
    let closed = one.close_frame().await;
    assert_eq!(
        closed,
        (
            CloseCode::Policy,
            "the token was withdrawn or has expired".to_owned()
        )
    );
    assert!(two.ask(MC_CALL).await.contains("slow"), "its rule is the same");
    assert_eq!(open_ws(to, Some(TOKEN)).await.err(), Some(401));
    server.stop().await;
}

/// A JWT (HS256) with `iat` now and `exp` so many seconds later.
fn signed(key: &[u8], secs: f64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let now = now.as_secs_f64();
    let parts = [
        r#"{"alg":"HS256"}"#.to_owned(),
        format!(r#"{{"iat":{now},"exp":{}}}"#, now + secs),
    ];
    let signed = parts.map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    mac.update(signed.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    format!("Bearer {signed}.{signature}")
}

#[tokio::test]
async fn a_websocket_ends_when_its_token_expires() {
    let key = [7; 32];
    let guards = tokens(vec![TokenRule {
        secret: TokenSecret::Jwt(TokenKey(key.to_vec().into())),
        ..rule("signer", None, "net")
    }]);
    let server = serve(&guards, Limits::default()).await;
    let to = server.addresses()[0];
    let mut short = open_ws(to, Some(&signed(&key, 1.0))).await.expect("a WebSocket");
    let mut long = open_ws(to, Some(&signed(&key, 3600.0)))
        .await
        .expect("a WebSocket");
    let reason = "the token was withdrawn or has expired".to_owned();
    let closed = tokio::time::timeout(PATIENCE, short.close_frame()).await;
    assert_eq!(closed, Ok((CloseCode::Policy, reason)));
    assert_eq!(long.ask(CALL).await, ANSWER);
    server.stop().await;
}

#[tokio::test]
async fn connections_of_a_token_are_bounded() {
    let guards = tokens(vec![TokenRule {
        connections_max: Some(2),
        ..rule("one", Some(TOKEN), "net")
    }]);
    let server = serve(&guards, Limits::default()).await;
    let to = server.addresses()[0];
    let first = open_ws(to, Some(TOKEN)).await.expect("a WebSocket");
    let _second = open_ws(to, Some(TOKEN)).await.expect("a WebSocket");
    assert_eq!(open_ws(to, Some(TOKEN)).await.err(), Some(429));
    let refused = check_status(to, &with_token(CALL, TOKEN), 429).await;
    assert!(
        refused.contains("expected at most 2 at the same time"),
        "{refused}"
    );
    drop(first);
    let begun = Instant::now();
    while split(&exchange(to, with_token(CALL, TOKEN).as_bytes()).await).0 != 200 {
        assert!(begun.elapsed() < PATIENCE, "the place is free again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn a_client_calls_at_its_rate() {
    let server = serve(&rate(0.001, 5.0), Limits::default()).await;
    let to = server.addresses()[0];
    // Requests without a token are not asked for one. The connection stays open.
    let mut stream = TcpStream::connect(to).await.expect("the server listens");
    let call = request(CALL, "").replace("Connection: close\r\n", "");
    for expected in ["200 OK", "200 OK"] {
        let answer = ask(&mut stream, &call).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{answer}");
    }
    let batch = format!("[{CALL},{CALL},{CALL},{CALL}]");
    let answer = exchange(to, request(&batch, "").as_bytes()).await;
    let (status, body) = split(&answer);
    assert_eq!(status, 200);
    assert_eq!(body.matches(r#""result":"100""#).count(), 3, "{body}");
    assert_eq!(
        body.matches(r#""code":-32005,"message":"limit exceeded"#).count(),
        1,
        "{body}"
    );
    let refused = ask(&mut stream, &call).await;
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
    let wait = refused.split_once("retry-after: ").expect("the header").1;
    let wait: u64 = wait
        .split("\r\n")
        .next()
        .and_then(|wait| wait.parse().ok())
        .expect("seconds");
    assert!((900..=1000).contains(&wait), "{wait}");
    let again = ask(&mut stream, &call).await;
    assert!(
        again.starts_with("HTTP/1.1 429 "),
        "the connection is open: {again}"
    );
    check_status(to, &bare("GET", "/health"), 200).await;
    assert_eq!(open_ws(to, None).await.err(), Some(429));
    server.stop().await;
}

/// Sends a request on a connection that stays open, and reads the response.
async fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream
        .write_all(request.as_bytes())
        .await
        .expect("the server reads");
    let mut text = String::new();
    let mut bytes = [0; 4096];
    loop {
        let len = tokio::time::timeout(PATIENCE, stream.read(&mut bytes))
            .await
            .expect("an answer in time")
            .expect("the connection is open");
        assert!(len > 0, "the connection was closed: {text}");
        text.push_str(std::str::from_utf8(&bytes[..len]).expect("text"));
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.split("content-length: ").nth(1).expect("a length");
        let length: usize = length
            .split("\r\n")
            .next()
            .and_then(|length| length.parse().ok())
            .expect("a number");
        if body.len() == length {
            return text;
        }
    }
}

#[tokio::test]
async fn a_websocket_calls_at_the_rate_of_its_client() {
    let server = serve(&rate(0.001, 4.0), Limits::default()).await;
    let mut client = open_ws(server.addresses()[0], None)
        .await
        .expect("the first call");
    assert_eq!(client.ask(CALL).await, ANSWER);
    let batch = client.ask(&format!("[{CALL},{CALL},{CALL}]")).await;
    assert_eq!(batch.matches(ANSWER).count(), 2, "{batch}");
    assert_eq!(batch.matches("-32005").count(), 1, "{batch}");
    for refused in [CALL, "nonsense"] {
        let refused = client.ask(refused).await;
        assert!(
            refused.contains("-32005") && refused.contains("try again in"),
            "{refused}"
        );
    }
    server.stop().await;
}

/// A certificate for `localhost` in files, and its key.
struct Certificate {
    folder: tempfile::TempDir,
    own: CertificateDer<'static>,
}

impl Certificate {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        std::fs::write(folder.path().join("cert"), made.cert.pem()).expect("a write");
        std::fs::write(folder.path().join("key"), made.signing_key.serialize_pem()).expect("a write");
        Self {
            folder,
            own: made.cert.der().clone(),
        }
    }

    fn guards(&self) -> Guards {
        let files = TlsFiles {
            clients: None,
            certificates: self.folder.path().join("cert"),
            key: self.folder.path().join("key"),
        };
        let tls = ServerTls::load(files, &[b"http/1.1"]).expect("good files");
        Guards {
            tls: Some(Arc::new(tls)),
            ..Guards::default()
        }
    }

    async fn connect(&self, address: SocketAddr) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.own.clone()).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await.expect("the server listens");
        let name = ServerName::try_from("localhost").expect("a name");
        let connected = TlsConnector::from(Arc::new(config)).connect(name, stream);
        tokio::time::timeout(PATIENCE, connected)
            .await
            .expect("a handshake in time")
            .expect("a trusted certificate")
    }
}

#[tokio::test]
async fn http_and_websockets_over_tls() {
    let certificate = Certificate::new();
    let server = serve(&certificate.guards(), Limits::default()).await;
    let to = server.addresses()[0];
    let mut stream = certificate.connect(to).await;
    stream.write_all(&post(CALL)).await.expect("the server reads");
    assert_eq!(split(&read_to_end(&mut stream).await), (200, ANSWER));
    // An answer of some records, and a request that does not fit into one.
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"mc_long","params":[{}]}}"#,
        3_000_000
    );
    let padded = format!("{}{long}", " ".repeat(300_000));
    let mut stream = certificate.connect(to).await;
    stream.write_all(&post(&padded)).await.expect("the server reads");
    let answer = read_to_end(&mut stream).await;
    assert_eq!(
        split(&answer).1.len(),
        3_000_000 + r#"{"jsonrpc":"2.0","id":1,"result":""}"#.len()
    );
    let stream = certificate.connect(to).await;
    let opened = tokio_tungstenite::client_async("wss://localhost/", stream).await;
    let mut socket: WebSocketStream<_> = opened.expect("a WebSocket").0;
    socket.send(Message::text(CALL)).await.expect("the server reads");
    let answer = socket.next().await.expect("an answer").expect("no broken frame");
    assert_eq!(answer, Message::text(ANSWER));
    server.stop().await;
}

#[tokio::test]
async fn plain_text_on_a_port_with_tls_is_refused() {
    let certificate = Certificate::new();
    let server = serve(&certificate.guards(), Limits::default()).await;
    let to = server.addresses()[0];
    let refused = check_status(to, &request(CALL, ""), 400).await;
    assert_eq!(split(&refused).1, "got plain HTTP, expected https:// or wss\n");
    for other in ["\x00\x01nonsense", "{\"id\":1}\n"] {
        let answer = exchange(to, other.as_bytes()).await;
        assert!(!answer.contains("HTTP"), "{answer:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_handshake_has_a_place_and_the_time_of_a_header() {
    let certificate = Certificate::new();
    let limits = Limits {
        header_timeout: Duration::from_millis(300),
        connections_max: 2,
        client_share_percent: 100,
        ..Limits::default()
    };
    let server = serve(&certificate.guards(), limits).await;
    let to = server.addresses()[0];
    let begun = Instant::now();
    let mut silent = TcpStream::connect(to).await.expect("the server listens");
    let mut slow = TcpStream::connect(to).await.expect("the server listens");
    slow.write_all(&[22, 3, 1]).await.expect("the server reads");
    // Both have a place, and neither does anything, so one of them makes room.
    let mut third = certificate.connect(to).await;
    third.write_all(&post(CALL)).await.expect("the server reads");
    assert_eq!(split(&read_to_end(&mut third).await), (200, ANSWER));
    assert_eq!(read_to_end(&mut silent).await, "");
    let mut rest = Vec::new();
    // The end may come as a reset, because the server has not read everything.
    let _ = tokio::time::timeout(PATIENCE, slow.read_to_end(&mut rest))
        .await
        .expect("the server closes in time");
    assert!(
        begun.elapsed() >= Duration::from_millis(300),
        "the time of a header"
    );
    server.stop().await;
}

#[tokio::test]
async fn new_connections_use_the_files_that_were_read_last() {
    let (first, second) = (Certificate::new(), Certificate::new());
    let guards = first.guards();
    let server = serve(&guards, Limits::default()).await;
    let to = server.addresses()[0];
    let mut old = first.connect(to).await;
    let tls = guards.tls.as_ref().expect("TLS");
    for name in ["cert", "key"] {
        std::fs::copy(second.folder.path().join(name), first.folder.path().join(name)).expect("a copy");
    }
    tls.reload().expect("good files");
    let mut new = second.connect(to).await;
    for stream in [&mut new, &mut old] {
        stream.write_all(&post(CALL)).await.expect("the server reads");
        assert_eq!(split(&read_to_end(stream).await), (200, ANSWER));
    }
    server.stop().await;
}
