//! A client of each transport.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::server::harness::PATIENCE;

/// A WebSocket client that takes messages of any length.
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

    /// Sends a text message.
    pub(crate) async fn send(&mut self, text: &str) {
        self.send_message(Message::text(text)).await;
    }

    /// Sends a message or frame of any kind.
    pub(crate) async fn send_message(&mut self, message: Message) {
        self.0.send(message).await.expect("the server reads");
    }

    /// Returns the next text message. Pings and pongs are skipped.
    pub(crate) async fn text(&mut self) -> String {
        loop {
            match self.next().await {
                Some(Message::Text(text)) => return text.as_str().to_owned(),
                Some(Message::Ping(_) | Message::Pong(_)) => {}
                other => panic!("message: got {other:?}, expected a text"),
            }
        }
    }

    /// Waits until the server has begun to send, without reading.
    pub(crate) async fn answer_begins(&self) {
        let readable = timeout(PATIENCE, self.0.get_ref().readable()).await;
        readable.expect("an answer in time").expect("a connection");
    }

    /// Returns the next message, or `None` at the end of the connection.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        let next = timeout(PATIENCE, self.0.next()).await.expect("a message in time");
        next.transpose().expect("no broken frames")
    }

    /// Reads until the server closes, which it must do with a close code. Returns code and reason.
    pub(crate) async fn close_frame(&mut self) -> (CloseCode, String) {
        loop {
            match self.next().await {
                Some(Message::Close(Some(frame))) => return (frame.code, frame.reason.as_str().to_owned()),
                Some(Message::Close(None)) | None => panic!("the connection ended without a close code"),
                Some(_) => {}
            }
        }
    }

    /// Sends `text` and returns the next text message.
    pub(crate) async fn ask(&mut self, text: &str) -> String {
        self.send(text).await;
        self.text().await
    }
}

#[cfg(unix)]
pub(crate) mod unix {
    use std::path::Path;

    use rpc::server::TcpServer;
    use rpc::server::ipc::{self, IpcServer};
    use rpc::{Limits, Modules};
    use tempfile::TempDir;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::UnixStream;

    use super::*;
    use crate::server::harness::{dispatcher, exchange, post, read_to_end, serve_http, serve_ws, split};

    /// A client of the local socket.
    pub(crate) struct IpcClient(BufReader<UnixStream>);

    impl IpcClient {
        pub(crate) async fn connect(path: &Path) -> Self {
            let stream = UnixStream::connect(path).await;
            Self(BufReader::new(stream.expect("the server listens")))
        }

        /// Sends `text` as it is.
        pub(crate) async fn send(&mut self, text: impl AsRef<[u8]>) {
            self.0.write_all(text.as_ref()).await.expect("the server reads");
        }

        /// Returns the next line without its end. The line is empty if the server has closed the
        /// connection. A connection that is closed with unread bytes is reset. So an error counts
        /// as the end, too.
        pub(crate) async fn line(&mut self) -> String {
            let mut line = String::new();
            let read = timeout(PATIENCE, self.0.read_line(&mut line)).await;
            let _ = read.expect("an answer in time");
            line.trim_end().to_owned()
        }

        /// Sends `text` and returns the next line.
        pub(crate) async fn ask(&mut self, text: &str) -> String {
            self.send(text).await;
            self.line().await
        }

        /// As [`Self::ask`], for a connection that the server may have closed already.
        pub(crate) async fn try_ask(&mut self, text: &str) -> String {
            let _ = self.0.write_all(text.as_bytes()).await;
            self.line().await
        }

        /// Closes the sending direction only.
        pub(crate) async fn stop_sending(&mut self) {
            self.0.shutdown().await.expect("the connection is open");
        }

        /// Returns everything that comes until the server closes.
        pub(crate) async fn read_to_end(&mut self) -> String {
            read_to_end(&mut self.0).await
        }
    }

    /// The transport of a message.
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
    pub(crate) struct AllServers {
        http: TcpServer,
        ipc: IpcServer,
        ws: TcpServer,
        _directory: TempDir,
    }

    /// A client on one of the transports.
    pub(crate) enum Client {
        Http(SocketAddr),
        Ipc(IpcClient),
        Ws(Box<WsClient>),
    }

    /// A call that is sent after the message under test. If its answer comes first, the message
    /// itself had no answer.
    const LAST: &str = r#"{"jsonrpc":"2.0","id":"last","method":"net_version"}"#;
    const LAST_ANSWER: &str = r#"{"jsonrpc":"2.0","id":"last","result":"100"}"#;

    impl AllServers {
        /// Starts the servers. The messages of a connection are answered one after the other, so
        /// that a client can tell that a message has no answer.
        pub(crate) async fn start(limits: Limits) -> Self {
            let limits = Limits {
                connection_calls_max: 1,
                ..limits
            };
            let directory = TempDir::new().expect("a temporary directory");
            let all_modules = dispatcher(limits.clone(), &Modules::all());
            Self {
                http: serve_http(limits.clone(), "").await,
                ipc: ipc::start(all_modules, &directory.path().join("n.ipc")).expect("a free path"),
                ws: serve_ws(limits, "").await,
                _directory: directory,
            }
        }

        pub(crate) async fn connect(&self, transport: Transport) -> Client {
            match transport {
                Transport::Http => Client::Http(self.http.addresses()[0]),
                Transport::Ipc => Client::Ipc(IpcClient::connect(self.ipc.path()).await),
                Transport::Ws => Client::Ws(Box::new(WsClient::connect(self.ws.addresses()[0]).await)),
            }
        }
    }

    impl Client {
        /// Returns the answer to `message`, or an empty text if there is none.
        pub(crate) async fn ask(&mut self, message: &str) -> String {
            let answer = match self {
                Self::Http(address) => {
                    let response = exchange(*address, &post(message)).await;
                    let (status, body) = split(&response);
                    assert_eq!(status, if body.is_empty() { 204 } else { 200 }, "{response}");
                    return body.to_owned();
                }
                // One write: the server may close a broken stream before it reads the last call.
                Self::Ipc(client) => client.ask(&format!("{message}\n{LAST}")).await,
                Self::Ws(client) => {
                    client.send(message).await;
                    client.ask(LAST).await
                }
            };
            if answer == LAST_ANSWER {
                return String::new();
            }
            let last = match self {
                Self::Ipc(client) => client.line().await,
                Self::Ws(client) => client.text().await,
                Self::Http(_) => String::new(),
            };
            // Nothing follows if the stream has ended with the answer.
            assert!(last == LAST_ANSWER || last.is_empty(), "after {answer}: {last}");
            answer
        }
    }
}
