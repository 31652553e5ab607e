//! A scripted node: JSON-RPC over HTTP/1.1 with persistent connections. It can be stopped and
//! started.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

/// The answer to a call: a result, an error, or raw bytes instead of HTTP.
#[derive(Clone)]
pub(crate) enum Answer {
    Result(Value),
    Error(i64, &'static str),
    Raw(Vec<u8>),
}

#[derive(Default)]
struct State {
    answers: HashMap<String, Answer>,
    calls: Vec<(String, Value)>,
    /// The header of the last request.
    head: String,
    streams: Vec<TcpStream>,
    connections: usize,
}

/// A node with its own port.
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    stopping: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

impl Node {
    /// A node that knows no method.
    pub(crate) fn start() -> Self {
        let mut node = Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            state: Arc::default(),
            stopping: Arc::default(),
            listener: None,
        };
        node.up();
        node
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the answer to `method` from now on.
    pub(crate) fn set(&self, method: &str, answer: Answer) {
        self.state
            .lock()
            .expect("no holder panics")
            .answers
            .insert(method.to_owned(), answer);
    }

    /// Sets the work that `method` gives from now on.
    pub(crate) fn set_work(&self, method: &str, work: &[String]) {
        self.set(method, Answer::Result(json!(work)));
    }

    /// The parameters of all calls of `method` so far.
    pub(crate) fn calls(&self, method: &str) -> Vec<Value> {
        let state = self.state.lock().expect("no holder panics");
        let calls = state.calls.iter().filter(|(name, _)| name == method);
        calls.map(|(_, params)| params.clone()).collect()
    }

    /// The header of the last request.
    pub(crate) fn head(&self) -> String {
        self.state.lock().expect("no holder panics").head.clone()
    }

    /// Number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.state.lock().expect("no holder panics").connections
    }

    /// Stops: closes all connections and the listener.
    pub(crate) fn down(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // A connection wakes the listener.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            listener.join().expect("the listener does not panic");
        }
        for stream in self.state.lock().expect("no holder panics").streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Starts to listen, at the same port as before.
    pub(crate) fn up(&mut self) {
        let listener = TcpListener::bind(self.address).expect("a free port");
        self.address = listener.local_addr().expect("it is bound");
        self.stopping = Arc::default();
        let (state, stopping) = (Arc::clone(&self.state), Arc::clone(&self.stopping));
        self.listener = Some(std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopping.load(Ordering::Acquire) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let state = Arc::clone(&state);
                {
                    let mut state = state.lock().expect("no holder panics");
                    state.connections += 1;
                    state.streams.extend(stream.try_clone());
                }
                std::thread::spawn(move || talk(&stream, &state));
            }
        }));
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.down();
    }
}

/// Answers requests until the connection ends.
fn talk(stream: &TcpStream, state: &Mutex<State>) -> Option<()> {
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            head += &line;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let request: Value = serde_json::from_slice(&body).ok()?;
        let method = request["method"].as_str()?.to_owned();
        let answer = {
            let mut state = state.lock().ok()?;
            state.head = head;
            state.calls.push((method.clone(), request["params"].clone()));
            state.answers.get(&method).cloned()
        };
        let id = &request["id"];
        let body = match answer.unwrap_or(Answer::Error(-32_601, "the method does not exist")) {
            Answer::Result(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Answer::Error(code, message) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
            }
            Answer::Raw(bytes) => {
                let mut stream = stream;
                stream.write_all(&bytes).ok()?;
                let _ = stream.shutdown(Shutdown::Both);
                return None;
            }
        }
        .to_string();
        let mut stream = stream;
        let text = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(text.as_bytes()).ok()?;
    }
}
