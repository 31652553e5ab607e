//! A client of Stratum servers that sends what a test wants, line by line.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::wait::SOCKET_PATIENCE;

/// A raw connection to a Stratum server.
#[derive(Debug)]
pub struct RawConnection(BufReader<TcpStream>);

impl RawConnection {
    /// Connects to a server.
    ///
    /// # Panics
    /// If the server does not listen.
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(SOCKET_PATIENCE)).expect("a socket");
        Self(BufReader::new(stream))
    }

    /// Sends bytes. Returns whether the server was still there.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.get_mut().write_all(bytes).is_ok()
    }

    /// The next line; `None` if the server has closed the connection.
    ///
    /// # Panics
    /// If the line is not JSON.
    #[track_caller]
    pub fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("got {line:?}"))),
        }
    }

    /// Reads until the server closes the connection.
    pub fn wait_for_end(&mut self) {
        while self.receive().is_some() {}
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Panics
    /// If the server closes the connection.
    #[track_caller]
    pub fn call(&mut self, request: &Value) -> Value {
        assert!(self.send(format!("{request}\n").as_bytes()));
        loop {
            let answer = self.receive().expect("an answer");
            if answer["id"] == request["id"] {
                return answer;
            }
        }
    }

    /// Logs in with EthereumStratum/1.0.0. Returns the id of the first job.
    ///
    /// # Panics
    /// If the server refuses the login or closes the connection.
    #[track_caller]
    pub fn log_in(&mut self, name: &str) -> String {
        self.call(&json!({"id": 1, "method": "mining.subscribe", "params": ["x", "EthereumStratum/1.0.0"]}));
        let login = json!({"id": 2, "method": "mining.authorize", "params": [name, "x"]});
        assert_eq!(self.call(&login)["result"], true);
        loop {
            let message = self.receive().expect("a job");
            if message["method"] == "mining.notify" {
                return message["params"][0].as_str().expect("the id of a job").to_owned();
            }
        }
    }

    /// Ends one direction of the connection, or both.
    ///
    /// # Panics
    /// If the connection has ended already.
    pub fn shut_down(&self, how: Shutdown) {
        self.0.get_ref().shutdown(how).expect("it is open");
    }
}
