//! A scripted pool: the test writes every line.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::WAIT_MAX;

/// A listening pool.
pub(crate) struct ScriptedPool {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl ScriptedPool {
    pub(crate) fn listen() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        listener.set_nonblocking(true).expect("a socket");
        Self { listener, address }
    }

    pub(crate) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://0xwallet.rig:secret@{}", self.address)
    }

    /// The connection of the next miner.
    #[track_caller]
    pub(crate) fn accept(&self) -> Talk<TcpStream> {
        let started = Instant::now();
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).expect("a socket");
                    stream.set_nodelay(true).expect("a socket");
                    stream.set_read_timeout(Some(WAIT_MAX)).expect("a socket");
                    return Talk::new(stream);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    assert!(started.elapsed() < WAIT_MAX, "no miner connects");
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// A pool's side of a connection.
pub(crate) struct Talk<S: Read + Write> {
    stream: BufReader<S>,
}

impl<S: Read + Write> Talk<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// The underlying connection.
    pub(crate) fn into_inner(self) -> S {
        self.stream.into_inner()
    }

    /// The next line of the miner; `None` if it has closed the connection.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => {
                Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("got {line:?}, expected JSON")))
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof
                ) =>
            {
                None
            }
            Err(error) => panic!("the miner sends nothing: {error}"),
        }
    }

    /// The next request of `method`. Answers and skips requests that do not matter for tests.
    #[track_caller]
    pub(crate) fn expect(&mut self, method: &str) -> Value {
        loop {
            let request = self
                .receive()
                .unwrap_or_else(|| panic!("the miner left before {method}"));
            let got = request["method"].as_str().unwrap_or_default().to_owned();
            if got == method {
                return request;
            }
            assert!(
                matches!(
                    got.as_str(),
                    "mining.extranonce.subscribe" | "eth_submitHashrate" | "mining.hashrate" | "mining.noop"
                ),
                "got {request}, expected {method}"
            );
            self.send(&json!({"id": request["id"], "result": true, "error": null}));
        }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    /// Sends bytes. An error means that the miner has closed the connection; the test sees that
    /// elsewhere.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let stream = self.stream.get_mut();
        let _ = stream.write_all(bytes).and_then(|()| stream.flush());
    }

    /// Answers a request with `true`.
    pub(crate) fn accept_request(&mut self, request: &Value) {
        self.send(&json!({"id": request["id"], "result": true, "error": null}));
    }

    /// Handles the login in EthereumStratum/1.0.0.
    #[track_caller]
    pub(crate) fn ethereum_stratum1_login(&mut self, extranonce: &str) {
        let subscribe = self.expect("mining.subscribe");
        assert_eq!(subscribe["params"][1], "EthereumStratum/1.0.0");
        let result = json!([["mining.notify", "1", "EthereumStratum/1.0.0"], extranonce]);
        self.send(&json!({"id": subscribe["id"], "result": result, "error": null}));
        let authorize = self.expect("mining.authorize");
        assert_eq!(authorize["params"], json!(["0xwallet.rig", "secret"]));
        self.accept_request(&authorize);
    }

    /// Sends a job of EthereumStratum/1.0.0.
    pub(crate) fn ethereum_stratum1_job(&mut self, id: &str, header: ethash::B256, clean: bool) {
        let seed = ethash::Epoch::ethash(0).seed_hash();
        self.send(&json!({"id": null, "method": "mining.notify", "params": [id, format!("{seed:x}"), format!("{header:x}"), clean]}));
    }

    /// Sends a difficulty of EthereumStratum/1.0.0.
    pub(crate) fn ethereum_stratum1_difficulty(&mut self, difficulty: f64) {
        self.send(&json!({"id": null, "method": "mining.set_difficulty", "params": [difficulty]}));
    }
}
