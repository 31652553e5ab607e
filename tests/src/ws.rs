//! A client on a WebSocket that tells answers from notifications.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use crate::call::{CallError, read_response};

/// Time for one message; above every bound that the node sets itself.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A client on a WebSocket.
#[derive(Debug)]
pub struct WsClient {
    socket: WebSocket<TcpStream>,
    told: VecDeque<Value>,
    id: u64,
}

impl WsClient {
    /// Connects, as a page of `origin` where one is named.
    ///
    /// # Errors
    /// The node's words where it does not open a WebSocket.
    ///
    /// # Panics
    /// When nothing listens.
    pub fn connect(address: SocketAddr, origin: Option<&str>) -> Result<Self, String> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT).expect("the node listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a time-out");
        stream.set_write_timeout(Some(TIMEOUT)).expect("a time-out");
        let mut request = tungstenite::client::ClientRequestBuilder::new(
            format!("ws://{address}/").parse().expect("a URL"),
        );
        if let Some(origin) = origin {
            request = request.with_header("Origin", origin);
        }
        let (socket, _) = tungstenite::client(request, stream).map_err(|error| error.to_string())?;
        Ok(Self {
            socket,
            told: VecDeque::new(),
            id: 0,
        })
    }

    /// Sends a text as it stands.
    ///
    /// # Panics
    /// When the node does not take it.
    pub fn send(&mut self, text: &str) {
        self.socket.send(Message::text(text)).expect("the node reads");
    }

    /// The next text as it comes.
    ///
    /// # Panics
    /// When none comes.
    pub fn text(&mut self) -> String {
        loop {
            match self.socket.read().expect("a message in time") {
                Message::Text(text) => return text.as_str().to_owned(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("got {other:?}, expected a text"),
            }
        }
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.text()).expect("JSON")
    }

    /// Calls `method`.
    ///
    /// # Errors
    /// What the node answers.
    pub fn try_rpc(&mut self, method: &str, params: Value) -> Result<Value, CallError> {
        self.id += 1;
        let id = json!(self.id);
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        loop {
            let message = self.next();
            if message.get("id").is_some() {
                return read_response(&message.to_string(), &id);
            }
            self.told.push_back(message);
        }
    }

    /// Calls `method`, which must give a result.
    ///
    /// # Panics
    /// When it gives none.
    #[track_caller]
    pub fn rpc(&mut self, method: &str, params: Value) -> Value {
        let result = self.try_rpc(method, params);
        result.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The next notification: its subscription and its result.
    ///
    /// # Panics
    /// When none comes, or something else.
    #[track_caller]
    pub fn told(&mut self) -> (Value, Value) {
        let mut told = self.told.pop_front().unwrap_or_else(|| self.next());
        assert_eq!(told["method"], "mc_subscription", "{told}");
        (
            told["params"]["subscription"].take(),
            told["params"]["result"].take(),
        )
    }
}
