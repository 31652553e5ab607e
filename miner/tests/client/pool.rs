//! A scripted pool: the test says every line of it.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::PATIENCE;

/// A pool that listens.
pub(crate) struct Pool {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl Pool {
    pub(crate) fn listen() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        listener.set_nonblocking(true).expect("a socket");
        Self { listener, address }
    }

    pub(crate) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://0xwallet.rig:secret@{}", self.address)
    }

    /// The next miner.
    #[track_caller]
    pub(crate) fn accept(&self) -> Talk<TcpStream> {
        let started = Instant::now();
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).expect("a socket");
                    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
                    return Talk::new(stream);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    assert!(started.elapsed() < PATIENCE, "nobody connects");
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

    /// The bare connection.
    pub(crate) fn into_inner(self) -> S {
        self.stream.into_inner()
    }

    /// The miner's next line; `None` when it has left.
    #[track_caller]
    pub(crate) fn hear(&mut self) -> Option<Value> {
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
            Err(error) => panic!("the miner says nothing: {error}"),
        }
    }

    /// The next request of `method`; those without meaning for tests are answered and passed over.
    #[track_caller]
    pub(crate) fn expect(&mut self, method: &str) -> Value {
        loop {
            let request = self
                .hear()
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
            self.say(&json!({"id": request["id"], "result": true, "error": null}));
        }
    }

    pub(crate) fn say(&mut self, message: &Value) {
        self.say_bytes(format!("{message}\n").as_bytes());
    }

    /// A miner that has left hears nothing, which is the test's business.
    pub(crate) fn say_bytes(&mut self, bytes: &[u8]) {
        let stream = self.stream.get_mut();
        let _ = stream.write_all(bytes).and_then(|()| stream.flush());
    }

    /// Answers a request with yes.
    pub(crate) fn yes(&mut self, request: &Value) {
        self.say(&json!({"id": request["id"], "result": true, "error": null}));
    }

    /// EthereumStratum/1.0.0 up to the login.
    #[track_caller]
    pub(crate) fn log_in_first(&mut self, extranonce: &str) {
        let subscribe = self.expect("mining.subscribe");
        assert_eq!(subscribe["params"][1], "EthereumStratum/1.0.0");
        let result = json!([["mining.notify", "1", "EthereumStratum/1.0.0"], extranonce]);
        self.say(&json!({"id": subscribe["id"], "result": result, "error": null}));
        let authorize = self.expect("mining.authorize");
        assert_eq!(authorize["params"], json!(["0xwallet.rig", "secret"]));
        self.yes(&authorize);
    }

    /// A job of EthereumStratum/1.0.0.
    pub(crate) fn job_first(&mut self, id: &str, header: ethash::B256, clean: bool) {
        let seed = ethash::Epoch::ethash(0).seed_hash();
        self.say(&json!({"id": null, "method": "mining.notify", "params": [id, format!("{seed:x}"), format!("{header:x}"), clean]}));
    }

    pub(crate) fn difficulty_first(&mut self, difficulty: f64) {
        self.say(&json!({"id": null, "method": "mining.set_difficulty", "params": [difficulty]}));
    }
}
