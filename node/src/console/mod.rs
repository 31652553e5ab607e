//! `vnode attach`, a console for users, and `vnode rpc`, a single call for scripts.
//!
//! Both are ordinary JSON-RPC clients. They know the names of the methods, for completion, and
//! nothing else about them.

mod client;
mod editor;
mod format;
mod help;
mod parse;
mod transport;

pub use client::NodeCallError;
pub use parse::ConsoleCallError;
pub use transport::TransportError;

use std::collections::BTreeMap;
use std::io::IsTerminal;

use rustyline::ExternalPrinter;
use rustyline::error::ReadlineError;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::options::{ClientAccess, NodeEndpoint, OptionsError, VnodeOptions};
use crate::output::print_line;
use client::NodeClient;
use editor::{Prompt, history_file};
use parse::ConsoleCall;

/// Posts JSON to `url` and drops the answer.
///
/// # Errors
/// [`TransportError`] if the server does not take it.
pub(crate) async fn post_json(url: &hyper::Uri, json: String) -> Result<(), TransportError> {
    transport::post(url, &ClientAccess::default(), json)
        .await
        .map(drop)
}

/// An error that ends the console.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// The options do not name a node.
    #[error("{0}")]
    Options(#[from] OptionsError),
    /// A call failed.
    #[error("{0}")]
    Call(#[from] NodeCallError),
    /// The text of `--exec` is no call.
    #[error("--exec: {0}")]
    Exec(#[from] ConsoleCallError),
    /// Reading from the terminal failed.
    #[error("cannot read from the terminal: {0}")]
    Terminal(#[from] ReadlineError),
    /// The system failed to provide a thread.
    #[error("cannot start the network thread: {0}")]
    Runtime(#[from] std::io::Error),
}

/// Runs `vnode rpc`: calls a method once and prints its result, as JSON on one line unless standard
/// output is a terminal.
///
/// # Errors
/// [`ConsoleError`] if the node refuses the call or cannot be reached.
pub fn call(
    options: &VnodeOptions,
    endpoint: Option<&NodeEndpoint>,
    access: &ClientAccess,
    method: &str,
    params: &[String],
) -> Result<(), ConsoleError> {
    let names = method_names(None);
    let call = ConsoleCall {
        method: parse::method_name(method, |name| names.iter().any(|known| known == name)),
        params: params.iter().map(|param| parse::parse_param(param)).collect(),
    };
    let result = call_once(options, endpoint, access, &call)?;
    print_line(&if std::io::stdout().is_terminal() {
        format::pretty(result.get())
    } else {
        result.get().to_owned()
    });
    Ok(())
}

/// Runs `vnode attach --exec`: calls as a line of the prompt does, and prints the result as the
/// prompt prints it.
///
/// # Errors
/// [`ConsoleError`] if the line is no call, if the node refuses it or cannot be reached.
pub fn execute(
    options: &VnodeOptions,
    endpoint: Option<&NodeEndpoint>,
    access: &ClientAccess,
    line: &str,
) -> Result<(), ConsoleError> {
    let names = method_names(None);
    let mut words = line.split_whitespace();
    if words.next() == Some("help") {
        print_line(&help::help(&names, words.next().unwrap_or_default()));
        return Ok(());
    }
    let call = parse::parse_call(line, |name| names.iter().any(|known| known == name))?;
    if let Some(call) = call {
        print_line(&result_text(&call_once(options, endpoint, access, &call)?));
    }
    Ok(())
}

/// A connection to the node whose local socket the options name.
pub(crate) struct NodeCaller {
    runtime: Runtime,
    client: NodeClient,
}

impl NodeCaller {
    /// Connects to the node.
    ///
    /// # Errors
    /// [`ConsoleError`] if the node cannot be reached.
    pub(crate) fn connect(options: &VnodeOptions) -> Result<Self, ConsoleError> {
        let endpoint = node_endpoint(options, None)?;
        let runtime = runtime()?;
        let client = runtime.block_on(NodeClient::connect(&endpoint, &ClientAccess::default()))?;
        Ok(Self { runtime, client })
    }

    /// Calls `method`. Returns the JSON text of the result.
    ///
    /// # Errors
    /// [`NodeCallError`] if the node refuses the call or cannot be reached.
    pub(crate) fn call(&mut self, method: &str, params: &[Value]) -> Result<Box<RawValue>, NodeCallError> {
        self.runtime.block_on(self.client.call(method, params))
    }
}

/// Calls a method of the node over a connection of its own.
fn call_once(
    options: &VnodeOptions,
    endpoint: Option<&NodeEndpoint>,
    access: &ClientAccess,
    call: &ConsoleCall,
) -> Result<Box<RawValue>, ConsoleError> {
    let endpoint = node_endpoint(options, endpoint)?;
    let runtime = runtime()?;
    let mut client = runtime.block_on(NodeClient::connect(&endpoint, access))?;
    Ok(runtime.block_on(client.call(&call.method, &call.params))?)
}

/// Runs `vnode attach`: reads calls line by line and prints their results, until the end of the
/// input.
///
/// # Errors
/// [`ConsoleError`] if the node cannot be reached or reading from the terminal fails.
pub fn attach(
    options: &VnodeOptions,
    endpoint: Option<&NodeEndpoint>,
    access: &ClientAccess,
) -> Result<(), ConsoleError> {
    let endpoint = node_endpoint(options, endpoint)?;
    let runtime = runtime()?;
    let mut client = runtime.block_on(NodeClient::connect(&endpoint, access))?;
    let modules = runtime.block_on(client.call("rpc_modules", &[]))?;
    let modules: BTreeMap<String, Value> = serde_json::from_str(modules.get()).unwrap_or_default();
    greet(&runtime, &mut client, &endpoint, &modules);
    let names = method_names(Some(&modules));
    let history = options
        .data_directory()
        .ok()
        .and_then(|directory| history_file(&directory));
    let mut prompt = Prompt::new(names.clone(), history)?;
    if let Some(notifications) = client.take_notifications() {
        runtime.spawn_blocking({
            let printer = prompt.printer();
            move || print_notifications(notifications, printer)
        });
    }
    loop {
        let typed = match prompt.read() {
            Ok(typed) => typed,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        };
        let mut words = typed.split_whitespace();
        match (words.next(), words.next()) {
            (Some("exit" | "quit"), None) => break,
            (Some("help"), name) => print_line(&help::help(&names, name.unwrap_or_default())),
            _ => match parse::parse_call(&typed, |name| names.iter().any(|known| known == name)) {
                Ok(None) => {}
                Ok(Some(call)) => match runtime.block_on(client.call(&call.method, &call.params)) {
                    Ok(result) => print_line(&result_text(&result)),
                    Err(error) => print_line(&error_text(&error)),
                },
                Err(error) => print_line(&format!("error: {error}")),
            },
        }
    }
    runtime.shutdown_background();
    Ok(())
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

/// The given endpoint, or the local socket in the data directory.
fn node_endpoint(
    options: &VnodeOptions,
    endpoint: Option<&NodeEndpoint>,
) -> Result<NodeEndpoint, OptionsError> {
    if let Some(endpoint) = endpoint {
        return Ok(endpoint.clone());
    }
    let path = match &options.ipcpath {
        Some(path) => path.clone(),
        None => options.data_directory()?.join(rpc::server::ipc::SOCKET_NAME),
    };
    Ok(NodeEndpoint::Ipc(path))
}

/// The names of all methods of this version that belong to the modules of the node; of all modules
/// if `modules` is `None`.
fn method_names(modules: Option<&BTreeMap<String, Value>>) -> Vec<String> {
    let methods = rpc::methods::all();
    let enabled = methods
        .iter()
        .filter(|method| modules.is_none_or(|modules| modules.contains_key(method.module())));
    let mut names: Vec<_> = enabled.map(|method| method.name().to_owned()).collect();
    names.push("rpc_modules".to_owned());
    names.sort_unstable();
    names
}

/// Prints which node the console is attached to.
fn greet(
    runtime: &Runtime,
    client: &mut NodeClient,
    endpoint: &NodeEndpoint,
    modules: &BTreeMap<String, Value>,
) {
    let mut text = |method: &str| {
        let result = runtime.block_on(client.call(method, &[])).ok()?;
        let value: Value = serde_json::from_str(result.get()).ok()?;
        value.as_str().map(str::to_owned)
    };
    print_line(&format!("attached to {endpoint}"));
    if let Some(version) = text("chain3_clientVersion") {
        print_line(&format!("node     {version}"));
    }
    if let Some(network) = text("net_version") {
        print_line(&format!("network  {network}"));
    }
    if let Some(head) = text("mc_blockNumber") {
        let number = format::decimal(&format!("\"{head}\"")).unwrap_or(head);
        print_line(&format!("head     block {number}"));
    }
    let modules: Vec<_> = modules.keys().map(String::as_str).collect();
    print_line(&format!("modules  {}", modules.join(" ")));
    print_line("help lists the methods, exit or Ctrl-D ends the console");
}

/// Prints the notifications of the node, above the prompt if the terminal allows it.
fn print_notifications(
    mut notifications: mpsc::Receiver<Box<RawValue>>,
    mut printer: Option<impl ExternalPrinter>,
) {
    while let Some(params) = notifications.blocking_recv() {
        let text = format::pretty(params.get());
        let printed = printer
            .as_mut()
            .is_some_and(|printer| printer.print(format!("{text}\n")).is_ok());
        if !printed {
            print_line(&text);
        }
    }
}

fn result_text(result: &RawValue) -> String {
    match format::decimal(result.get()) {
        Some(decimal) => format!("{} ({decimal})", result.get()),
        None => format::pretty(result.get()),
    }
}

/// The text for an error of a call, with the data of a refusal.
pub fn error_text(error: &NodeCallError) -> String {
    match error {
        NodeCallError::Refused { data: Some(data), .. } => format!("error: {error}\n{data}"),
        _ => format!("error: {error}"),
    }
}
