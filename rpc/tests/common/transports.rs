//! Every transport in front of the same methods, and a client of each.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use rpc::server::ws::{self, WsOptions, WsServer};
use rpc::{Limits, Modules};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::{PATIENCE, dispatcher};

/// A WebSocket server on a free port, for these origins.
pub(crate) async fn serve_ws(limits: Limits, origins: &str) -> WsServer {
    let options = WsOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        origins: origins.parse().expect("origins"),
        ..WsOptions::default()
    };
    ws::start(dispatcher(limits, &Modules::default()), &options)
        .await
        .expect("a free port")
}

/// A client on a WebSocket.
pub(crate) struct WsClient(pub(crate) WebSocketStream<TcpStream>);

impl WsClient {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        let config = WebSocketConfig::default()
            .max_message_size(None)
            .max_frame_size(None);
        let url = format!("ws://{address}/");
        let opened = tokio_tungstenite::client_async_with_config(url, stream, Some(config)).await;
        Self(opened.expect("a WebSocket").0)
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.expect("the server reads");
    }

    /// The next text; pings and pongs are passed over.
    pub(crate) async fn text(&mut self) -> String {
        loop {
            match self.next().await {
                Some(Message::Text(text)) => return text.as_str().to_owned(),
                Some(Message::Ping(_) | Message::Pong(_)) => {}
                other => panic!("want a text, got {other:?}"),
            }
        }
    }

    /// The next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        let next = timeout(PATIENCE, self.0.next()).await.expect("a message in time");
        next.transpose().expect("no broken frames")
    }

    /// Reads to the end, which has to be a goodbye with a code.
    pub(crate) async fn goodbye(&mut self) -> (CloseCode, String) {
        loop {
            match self.next().await {
                Some(Message::Close(Some(frame))) => return (frame.code, frame.reason.as_str().to_owned()),
                Some(Message::Close(None)) | None => panic!("an end without a code"),
                Some(_) => {}
            }
        }
    }

    pub(crate) async fn ask(&mut self, text: &str) -> String {
        self.send(text).await;
        self.text().await
    }

    /// Whether nothing comes for so long.
    pub(crate) async fn is_silent(&mut self, time: Duration) -> bool {
        timeout(time, self.0.next()).await.is_err()
    }
}

#[cfg(unix)]
pub(crate) mod unix {
    use rpc::server::http::HttpServer;
    use rpc::server::ipc::{self, IpcServer};
    use tempfile::TempDir;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::UnixStream;

    use super::super::{exchange, post, serve, split};
    use super::*;

    /// How a message travels.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Transport {
        Http,
        Ipc,
        Ws,
    }

    impl Transport {
        pub(crate) const ALL: [Self; 3] = [Self::Http, Self::Ipc, Self::Ws];
    }

    /// A server on every transport.
    pub(crate) struct Everywhere {
        http: HttpServer,
        ipc: IpcServer,
        ws: WsServer,
        _directory: TempDir,
    }

    /// A client on one of them.
    pub(crate) enum Client {
        Http(SocketAddr),
        Ipc(BufReader<UnixStream>),
        Ws(Box<WsClient>),
    }

    /// A call whose answer tells that nothing came before it.
    const LAST: &str = r#"{"jsonrpc":"2.0","id":"last","method":"net_version"}"#;
    const LAST_ANSWER: &str = r#"{"jsonrpc":"2.0","id":"last","result":"100"}"#;

    impl Everywhere {
        /// Messages of a connection are answered one after the other, so that a client knows when
        /// one has no answer.
        pub(crate) async fn start(limits: Limits) -> Self {
            let limits = Limits {
                connection_calls_max: 1,
                ..limits
            };
            let directory = TempDir::new().expect("a temporary directory");
            let all = dispatcher(limits.clone(), &Modules::all());
            Self {
                http: serve(limits.clone(), "").await,
                ipc: ipc::start(all, &directory.path().join("n.ipc")).expect("a free path"),
                ws: serve_ws(limits, "").await,
                _directory: directory,
            }
        }

        pub(crate) async fn connect(&self, transport: Transport) -> Client {
            match transport {
                Transport::Http => Client::Http(self.http.addresses()[0]),
                Transport::Ipc => {
                    let stream = UnixStream::connect(self.ipc.path()).await;
                    Client::Ipc(BufReader::new(stream.expect("the server listens")))
                }
                Transport::Ws => Client::Ws(Box::new(WsClient::connect(self.ws.addresses()[0]).await)),
            }
        }
    }

    impl Client {
        /// The answer to `message`; empty where there is none.
        pub(crate) async fn ask(&mut self, message: &str) -> String {
            let answer = match self {
                Self::Http(address) => {
                    let response = exchange(*address, &post(message)).await;
                    let (status, body) = split(&response);
                    assert_eq!(status, if body.is_empty() { 204 } else { 200 }, "{response}");
                    return body.to_owned();
                }
                Self::Ipc(stream) => {
                    // A broken stream may be closed before the last call is read.
                    let both = format!("{message}\n{LAST}");
                    stream.write_all(both.as_bytes()).await.expect("the server reads");
                    line(stream).await
                }
                Self::Ws(client) => {
                    client.send(message).await;
                    client.send(LAST).await;
                    client.text().await
                }
            };
            if answer == LAST_ANSWER {
                return String::new();
            }
            let last = match self {
                Self::Ipc(stream) => line(stream).await,
                Self::Ws(client) => client.text().await,
                Self::Http(_) => String::new(),
            };
            // Nothing follows where the stream has ended with the answer.
            assert!(last == LAST_ANSWER || last.is_empty(), "after {answer}: {last}");
            answer
        }
    }

    async fn line(stream: &mut BufReader<UnixStream>) -> String {
        let mut line = String::new();
        let read = timeout(PATIENCE, stream.read_line(&mut line))
            .await
            .expect("an answer in time");
        // A connection that was closed with something unread is reset.
        let _ = read;
        line.trim_end().to_owned()
    }
}
