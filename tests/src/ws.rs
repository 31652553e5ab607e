//! A JSON-RPC client on a WebSocket, which separates answers from notifications.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, TcpStream};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use crate::call::{RpcCallError, read_response};
use crate::http::connect_from;

/// A JSON-RPC client on a WebSocket.
#[derive(Debug)]
pub struct WsClient {
    socket: WebSocket<TcpStream>,
    /// Notifications that arrived while a call waited for its answer.
    notifications: VecDeque<Value>,
    id: u64,
}

impl WsClient {
    /// Connects to the node at `address`, with the header `Origin` if `origin` is given.
    ///
    /// # Errors
    /// The reason if the node does not open a WebSocket.
    ///
    /// # Panics
    /// If nothing listens at `address`.
    pub fn connect(address: SocketAddr, origin: Option<&str>) -> Result<Self, String> {
        Self::connect_from(None, address, origin)
    }

    /// As [`Self::connect`], from the address `source` of this machine if one is given.
    ///
    /// # Errors
    /// The reason if the node does not open a WebSocket.
    ///
    /// # Panics
    /// If nothing listens at `address`.
    pub fn connect_from(
        source: Option<IpAddr>,
        address: SocketAddr,
        origin: Option<&str>,
    ) -> Result<Self, String> {
        let stream = connect_from(source, address).expect("the node listens");
        let mut request = tungstenite::client::ClientRequestBuilder::new(
            format!("ws://{address}/").parse().expect("a URL"),
        );
        if let Some(origin) = origin {
            request = request.with_header("Origin", origin);
        }
        let (socket, _) = tungstenite::client(request, stream).map_err(|error| error.to_string())?;
        Ok(Self {
            socket,
            notifications: VecDeque::new(),
            id: 0,
        })
    }

    /// Sends a text message.
    ///
    /// # Panics
    /// If the node does not read it.
    pub fn send(&mut self, text: &str) {
        self.socket.send(Message::text(text)).expect("the node reads");
    }

    /// The next text message.
    ///
    /// # Panics
    /// If none arrives.
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
    /// [`RpcCallError`] if the node answers with an error.
    pub fn try_rpc(&mut self, method: &str, params: Value) -> Result<Value, RpcCallError> {
        self.id += 1;
        let id = json!(self.id);
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        loop {
            let message = self.next();
            if message.get("id").is_some() {
                return read_response(&message.to_string(), &id);
            }
            self.notifications.push_back(message);
        }
    }

    /// Calls `method` and returns its result.
    ///
    /// # Panics
    /// If the node answers with an error.
    #[track_caller]
    pub fn rpc(&mut self, method: &str, params: Value) -> Value {
        let result = self.try_rpc(method, params);
        result.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Waits until the other side ends the connection. Messages before that are dropped.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn wait_for_end(mut self) {
        loop {
            match self.socket.read() {
                Ok(Message::Close(_)) | Err(tungstenite::Error::ConnectionClosed) => return,
                Ok(_) => {}
                Err(tungstenite::Error::Io(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    panic!("the connection has not ended: {error}")
                }
                Err(_) => return,
            }
        }
    }

    /// The next notification: its subscription and its result.
    ///
    /// # Panics
    /// If none arrives, or another message.
    #[track_caller]
    pub fn notification(&mut self) -> (Value, Value) {
        let mut message = self.notifications.pop_front().unwrap_or_else(|| self.next());
        assert_eq!(message["method"], "mc_subscription", "{message}");
        (
            message["params"]["subscription"].take(),
            message["params"]["result"].take(),
        )
    }
}
