//! A headless Chromium, driven by its debugging protocol over a WebSocket.
//!
//! `CHROMIUM` names the program; otherwise the usual names are looked for in `PATH`. Without a
//! browser, or with one that does not start, a test that needs it prints this and is skipped.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::client::ClientRequestBuilder;
use tungstenite::{Message, WebSocket};

use crate::http;
use crate::process::ChildProcess;
use crate::wait::{FairClock, PATIENCE, SOCKET_PATIENCE, note};

/// Names of the program.
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
];
/// Longest time for the start of the browser.
const START_TIMEOUT: Duration = Duration::from_secs(40);
/// Pause between two looks at the page.
const PAUSE: Duration = Duration::from_millis(100);

/// A browser with one page.
pub struct Browser {
    socket: WebSocket<TcpStream>,
    id: u64,
    /// The faults that the page has reported.
    faults: Vec<String>,
    _process: ChildProcess,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser. `None` if the test must be skipped.
    pub fn start() -> Option<Self> {
        match find()
            .ok_or_else(|| "no Chromium was found".to_owned())
            .and_then(|program| open(&program))
        {
            Ok(browser) => Some(browser),
            Err(reason) => {
                note(&format!("skipped, because a browser is missing: {reason}"));
                None
            }
        }
    }

    /// Calls a method of the protocol. Returns its result.
    ///
    /// # Panics
    /// If the browser answers with an error, or not at all.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.id += 1;
        let id = self.id;
        let request = json!({"id": id, "method": method, "params": params}).to_string();
        self.socket
            .send(Message::text(request))
            .expect("the browser reads");
        loop {
            let text = match self.socket.read().expect("the browser answers in time") {
                Message::Text(text) => text,
                Message::Ping(_) | Message::Pong(_) => continue,
                other => panic!("got {other:?}, expected a text"),
            };
            let mut message: Value = serde_json::from_str(&text).expect("JSON");
            if message["id"] == id {
                assert!(message.get("error").is_none(), "{method} {params}: {message}");
                return message["result"].take();
            }
            self.hear(&message);
        }
    }

    /// Notes what an event of the page says is wrong.
    fn hear(&mut self, event: &Value) {
        let params = &event["params"];
        let is_fault = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => params["type"] == "error",
            // Violations of the content policy are among these.
            Some("Log.entryAdded") => params["entry"]["level"] == "error",
            _ => false,
        };
        if is_fault {
            self.faults.push(params.to_string());
        }
    }

    /// Takes the faults that the page has reported: exceptions, errors, violations of its policy.
    pub fn take_faults(&mut self) -> Vec<String> {
        self.evaluate("0");
        std::mem::take(&mut self.faults)
    }

    /// Opens an address.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({ "url": url }));
    }

    /// The value of an expression in the page. A promise is waited for.
    ///
    /// # Panics
    /// If the expression throws.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", &params);
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].take()
    }

    /// Waits until an expression is neither null nor false in the page. Returns its value.
    ///
    /// # Panics
    /// If that does not happen; the message has the text of the page.
    #[track_caller]
    pub fn wait_for(&mut self, expression: &str) -> Value {
        let mut clock = FairClock::start();
        loop {
            let value = self.evaluate(expression);
            if !value.is_null() && value != false {
                return value;
            }
            if clock.elapsed() > PATIENCE {
                let text = self.evaluate("document.body.innerText");
                panic!("waited {PATIENCE:?} for {expression} in the page:\n{text}");
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Sets the size of the window in pixels, and whether the reader prefers a dark page.
    pub fn set_view(&mut self, width: u32, height: u32, dark: bool) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", &media);
    }

    /// Presses and releases a key, such as `Tab`. A key of one letter also types the letter.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "ArrowLeft" => 37,
            _ => 0,
        };
        let text = match key {
            "Enter" => "\r",
            letter if letter.chars().count() == 1 => letter,
            _ => "",
        };
        let mut event = json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code});
        if !text.is_empty() {
            event["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", &event);
        event["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", &event);
    }

    /// Types a text where the focus is.
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// Writes a picture of the whole page to a file.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn save_picture(&mut self, file: &Path) {
        let size = self.evaluate("[innerWidth, document.documentElement.scrollHeight]");
        let clip = json!({"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1});
        let params = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let picture = self.call("Page.captureScreenshot", &params);
        let bytes = STANDARD
            .decode(picture["data"].as_str().expect("a picture"))
            .expect("base64");
        std::fs::write(file, bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

/// The program.
fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let files = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.into_iter().find(|file| file.is_file())
}

/// Starts the program and connects to its page.
fn open(program: &Path) -> Result<Browser, String> {
    let profile = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command
        .args([
            "--headless=new",
            // Tests may run as root or in a container, where the sandbox does not work. The browser
            // loads nothing but the page of a program that the test has started.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--remote-debugging-port=0",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg("about:blank")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut process = ChildProcess::start(command, program.display().to_string());
    let mut clock = FairClock::start();
    let port_file = profile.path().join("DevToolsActivePort");
    let address = loop {
        let text = std::fs::read_to_string(&port_file).unwrap_or_default();
        if let Some(port) = text.lines().next().and_then(|line| line.parse().ok()) {
            break SocketAddr::from(([127, 0, 0, 1], port));
        }
        if process.exit_status().is_some() || clock.elapsed() > START_TIMEOUT {
            return Err(format!(
                "{} does not start: {}",
                program.display(),
                process.stderr()
            ));
        }
        std::thread::sleep(PAUSE);
    };
    let socket = connect(address)?;
    let mut browser = Browser {
        socket,
        id: 0,
        faults: Vec::new(),
        _process: process,
        _profile: profile,
    };
    for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
        browser.call(domain, &json!({}));
    }
    Ok(browser)
}

/// Connects to the page of the browser that can be debugged at `address`.
fn connect(address: SocketAddr) -> Result<WebSocket<TcpStream>, String> {
    let list = http::get(address, "/json/list").map_err(|error| error.to_string())?;
    let list: Value = serde_json::from_str(&list.body).map_err(|error| error.to_string())?;
    let page = list
        .as_array()
        .into_iter()
        .flatten()
        .find(|target| target["type"] == "page");
    let url = page.and_then(|page| page["webSocketDebuggerUrl"].as_str());
    let url = url.ok_or_else(|| format!("got {list}, expected a page"))?;
    let uri = url.parse().map_err(|_| format!("got {url}, expected a URL"))?;
    let stream = TcpStream::connect_timeout(&address, SOCKET_PATIENCE).map_err(|error| error.to_string())?;
    stream
        .set_read_timeout(Some(SOCKET_PATIENCE))
        .map_err(|error| error.to_string())?;
    let (socket, _) =
        tungstenite::client(ClientRequestBuilder::new(uri), stream).map_err(|error| error.to_string())?;
    Ok(socket)
}
