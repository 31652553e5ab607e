//! A console for people, `vnode attach`, and a call for scripts, `vnode rpc`.
//!
//! Both are clients like any other: what they know of methods is their names, for completion.

mod client;
mod editor;
mod endpoint;
mod line;
mod show;
mod transport;

pub use client::CallError;
pub use endpoint::{Endpoint, EndpointError};
pub use transport::TransportError;

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use rustyline::ExternalPrinter;
use rustyline::error::ReadlineError;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::options::{OptionsError, VnodeOptions};
use client::Client;
use editor::{COMMANDS, Prompt, history_file};

/// Exit code of `vnode rpc` where the node answers with an error.
const EXIT_REFUSED: u8 = 1;
/// Exit code of `vnode rpc` where the node cannot be asked, as for a wrong command line.
const EXIT_UNASKED: u8 = 2;

/// Why the console ends.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// No place of the local socket.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The node cannot be asked.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The terminal fails.
    #[error("the terminal fails: {0}")]
    Terminal(#[from] ReadlineError),
    /// Something of the system is missing.
    #[error("cannot start the network thread: {0}")]
    Runtime(#[from] std::io::Error),
}

/// `vnode rpc`: calls a method once and prints its result.
pub fn call(
    options: &VnodeOptions,
    endpoint: Option<&Endpoint>,
    method: &str,
    params: &[String],
) -> ExitCode {
    let params: Vec<_> = params.iter().map(|param| line::value(param)).collect();
    let names = names(None);
    let method = line::method_name(method, |name| names.iter().any(|own| own == name));
    let result = (|| {
        let endpoint = resolve(options, endpoint)?;
        let runtime = runtime()?;
        let mut client = runtime.block_on(Client::connect(&endpoint))?;
        Ok::<_, ConsoleError>(runtime.block_on(client.call(&method, &params))?)
    })();
    match result {
        Ok(result) => {
            say(&if std::io::stdout().is_terminal() {
                show::pretty(result.get())
            } else {
                result.get().to_owned()
            });
            ExitCode::SUCCESS
        }
        Err(ConsoleError::Call(refused @ CallError::Refused { .. })) => {
            eprintln!("{}", error_text(&refused));
            EXIT_REFUSED.into()
        }
        Err(error) => {
            eprintln!("vnode: {error}");
            EXIT_UNASKED.into()
        }
    }
}

/// `vnode attach`: reads calls line by line until the end of its input.
///
/// # Errors
/// [`ConsoleError`] when the node cannot be asked or the terminal fails.
pub fn attach(options: &VnodeOptions, endpoint: Option<&Endpoint>) -> Result<(), ConsoleError> {
    let endpoint = resolve(options, endpoint)?;
    let runtime = runtime()?;
    let mut client = runtime.block_on(Client::connect(&endpoint))?;
    let modules = runtime.block_on(client.call("rpc_modules", &[]))?;
    let modules: BTreeMap<String, Value> = serde_json::from_str(modules.get()).unwrap_or_default();
    greet(&runtime, &mut client, &endpoint, &modules);
    let names = names(Some(&modules));
    let history = options
        .data_directory()
        .ok()
        .and_then(|directory| history_file(&directory));
    let mut prompt = Prompt::new(names.clone(), history)?;
    if let Some(told) = client.take_notifications() {
        runtime.spawn_blocking({
            let printer = prompt.printer();
            move || pass_on(told, printer)
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
            (Some("help"), wanted) => help(&names, wanted.unwrap_or_default()),
            _ => match line::parse(&typed, |name| names.iter().any(|own| own == name)) {
                Ok(None) => {}
                Ok(Some(line)) => match runtime.block_on(client.call(&line.method, &line.params)) {
                    Ok(result) => say(&result_text(&result)),
                    Err(error) => say(&error_text(&error)),
                },
                Err(error) => say(&format!("error: {error}")),
            },
        }
    }
    runtime.shutdown_background();
    Ok(())
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

/// The endpoint asked for, or the local socket of the data directory.
fn resolve(options: &VnodeOptions, endpoint: Option<&Endpoint>) -> Result<Endpoint, OptionsError> {
    if let Some(endpoint) = endpoint {
        return Ok(endpoint.clone());
    }
    let path = match &options.ipcpath {
        Some(path) => path.clone(),
        None => options.data_directory()?.join(rpc::server::ipc::SOCKET_NAME),
    };
    Ok(Endpoint::Ipc(path))
}

/// The methods that this version knows, of the modules that the node has.
fn names(modules: Option<&BTreeMap<String, Value>>) -> Vec<String> {
    let methods = rpc::methods::all();
    let enabled = methods
        .iter()
        .filter(|method| modules.is_none_or(|modules| modules.contains_key(method.module())));
    let mut names: Vec<_> = enabled.map(|method| method.name().to_owned()).collect();
    names.push("rpc_modules".to_owned());
    names.sort_unstable();
    names
}

/// Says what this console is attached to.
fn greet(runtime: &Runtime, client: &mut Client, endpoint: &Endpoint, modules: &BTreeMap<String, Value>) {
    let mut text = |method: &str| {
        let result = runtime.block_on(client.call(method, &[])).ok()?;
        let value: Value = serde_json::from_str(result.get()).ok()?;
        value.as_str().map(str::to_owned)
    };
    say(&format!("attached to {endpoint}"));
    if let Some(version) = text("chain3_clientVersion") {
        say(&format!("node     {version}"));
    }
    if let Some(network) = text("net_version") {
        say(&format!("network  {network}"));
    }
    if let Some(head) = text("mc_blockNumber") {
        let number = show::decimal(&format!("\"{head}\"")).unwrap_or(head);
        say(&format!("head     block {number}"));
    }
    let modules: Vec<_> = modules.keys().map(String::as_str).collect();
    say(&format!("modules  {}", modules.join(" ")));
    say("help lists the methods, exit or Ctrl-D ends");
}

fn help(names: &[String], wanted: &str) {
    let wanted = wanted.replacen('.', "_", 1);
    let mut found = names.iter().filter(|name| name.starts_with(&wanted)).peekable();
    if found.peek().is_none() {
        say(&format!("no method begins with {wanted:?}"));
    }
    for name in found {
        say(&name.replacen('_', ".", 1));
    }
    if wanted.is_empty() {
        say(&format!("and of the console: {}", COMMANDS.join(", ")));
        say(
            "parameters follow, separated by spaces: mc.getBalance 0x70997970c51812dc3a010c7d01b50e0d17dc79c8 latest",
        );
    }
}

/// Shows what the node tells of its own accord, above the prompt where the terminal can.
fn pass_on(mut told: mpsc::Receiver<Box<RawValue>>, mut printer: Option<impl ExternalPrinter>) {
    while let Some(params) = told.blocking_recv() {
        let text = show::pretty(params.get());
        let printed = printer
            .as_mut()
            .is_some_and(|printer| printer.print(format!("{text}\n")).is_ok());
        if !printed {
            say(&text);
        }
    }
}

fn result_text(result: &RawValue) -> String {
    match show::decimal(result.get()) {
        Some(decimal) => format!("{} ({decimal})", result.get()),
        None => show::pretty(result.get()),
    }
}

fn error_text(error: &CallError) -> String {
    match error {
        CallError::Refused { data: Some(data), .. } => format!("error: {error}\n{data}"),
        _ => format!("error: {error}"),
    }
}

/// A line to standard output. That nobody reads it any more is no failure of what was done.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
